// narrow op and narrow validate --op, from outside: the bits are those of the library, and what is wrong is told in a
// line.
#include <map>

#include "matrices.hpp"
#include "narrow/special/attention.hpp"
#include "narrow/special/operation.hpp"

using test::check_refused;
using test::contains;
using test::Folder;
using test::Json;
using test::narrow_json;
using namespace narrow;  // formats by name: "fp16"_fmt

namespace {

struct Type {
  const char *name, *dtype;
  Format format;
};
const Type types[] = {{"fp16", "F16", "fp16"_fmt}, {"bf16", "BF16", "bf16"_fmt}, {"fp32", "F32", "fp32"_fmt}};

std::string bytes_of(const std::vector<std::uint32_t>& codes, const Format& f) {
  std::string data;
  for (const std::uint32_t code : codes) data += test::little_endian(code, f.width() / 8);
  return data;
}

std::vector<std::uint32_t> normal_codes(std::size_t count, const Format& f, std::uint64_t seed) {
  std::vector<std::uint32_t> codes;
  for (std::size_t i = 0; i < count; ++i)
    codes.push_back(static_cast<std::uint32_t>(encode(test::random_normal(seed, i), f)));
  return codes;
}

std::vector<float> floats_of(const std::vector<std::uint32_t>& codes, const Format& f) {
  std::vector<float> values;
  for (const std::uint32_t code : codes) values.push_back(static_cast<float>(decode(code, f)));
  return values;
}

// x [2, 3, 40], w and b [40], targets [2, 3] in a file, and what the library makes of them.
struct Rows {
  static constexpr std::size_t rows = 6, cols = 40;
  const Type& type;
  std::vector<std::uint32_t> x, w, b;
  std::vector<float> x_values, w_values, b_values;
  std::vector<std::int64_t> target{3, 39, -100, 0, 17, 5};

  explicit Rows(const Type& of)
      : type(of),
        x(normal_codes(rows * cols, of.format, 1)),
        w(normal_codes(cols, of.format, 2)),
        b(normal_codes(cols, of.format, 3)),
        x_values(floats_of(x, of.format)),
        w_values(floats_of(w, of.format)),
        b_values(floats_of(b, of.format)) {}

  std::string file() const {
    return test::safetensors_of({{"x", type.dtype, "[2,3,40]", bytes_of(x, type.format)},
                                 {"w", type.dtype, "[40]", bytes_of(w, type.format)},
                                 {"b", type.dtype, "[40]", bytes_of(b, type.format)},
                                 {"target", "I64", "[2,3]", test::raw(target)}});
  }

  OperationRequest request() const {
    OperationRequest r;
    r.type = type.format, r.rows = rows, r.cols = cols, r.x = x_values;
    return r;
  }
};

// The command line of an operation on such a file, and the request that is the same.
std::vector<std::string> words_of(const std::string& name, const std::string& file) {
  std::vector<std::string> words{"--x", file + ":x"};
  const auto add = [&](const char* operand) {
    words.insert(words.end(), {std::string("--") + operand, file + ":" + operand});
  };
  if (name == "layer_norm") add("w"), add("b"), words.insert(words.end(), {"--eps", "1e-3"});
  if (name == "rms_norm") add("w");
  if (name == "cross_entropy") add("target");
  return words;
}
OperationRequest request_of(const std::string& name, const Rows& rows) {
  OperationRequest r = rows.request();
  if (name == "layer_norm") r.w = rows.w_values, r.b = rows.b_values, r.eps = 1e-3;
  if (name == "rms_norm") r.w = rows.w_values;
  if (name == "cross_entropy") r.target = rows.target;
  return r;
}

std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const std::map<std::string, std::string> shapes = {
    {"softmax", "[2,3,40]"}, {"log_softmax", "[2,3,40]"}, {"layer_norm", "[2,3,40]"}, {"rms_norm", "[2,3,40]"},
    {"gelu", "[2,3,40]"},    {"gelu_tanh", "[2,3,40]"},   {"silu", "[2,3,40]"},       {"sum", "[2,3]"},
    {"mean", "[2,3]"},       {"cross_entropy", "[]"},
};

}  // namespace

TEST_CASE("apps: op gives the codes of the library for every operation and variant and type") {
  for (const Type& type : types) {
    const Rows rows(type);
    const Folder folder;
    const std::string file = folder.write("in.safetensors", rows.file()), out = folder / "out.safetensors";
    for (const auto& [name, shape] : shapes) {
      const OperationRequest request = request_of(name, rows);
      for (const OperationRow* row : operation_rows(name)) {
        CAPTURE(type.name);
        CAPTURE(name);
        CAPTURE(row->variant);
        if (row->kernel(request).empty()) continue;
        const std::string variant(row->variant);
        const Json said = narrow_json(joined({"op", name, "--variant", variant, "-o", out}, words_of(name, file)));
        CHECK(said["operation"] == name);
        CHECK(said["variant"] == variant);
        CHECK(said["kernel"] == row->kernel(request));
        CHECK(said["shape"] == Json::parse(shape));
        CHECK(said["format"] == type.name);
        const std::string written = test::read_file(out);
        CHECK(test::header_of(written)["D"]["dtype"] == type.dtype);
        CHECK(test::header_of(written)["D"]["shape"] == Json::parse(shape));
        CHECK(test::data_of(written) == bytes_of(run_operation(name, variant, request), type.format));
      }
      CHECK(narrow_json(joined({"op", name}, words_of(name, file)))["variant"] == "torch");
    }
  }
}

TEST_CASE("apps: validate --op names the variant of what op wrote and the nearest when a bit is flipped") {
  for (const Type& type : types) {
    const Rows rows(type);
    const Folder folder;
    const std::string file = folder.write("in.safetensors", rows.file()), out = folder / "out.safetensors";
    for (const auto& [name, shape] : shapes) {
      CAPTURE(type.name);
      CAPTURE(name);
      CHECK(test::run(joined({"op", name, "-o", out}, words_of(name, file))).status == 0);
      const std::vector<std::string> asked = joined({"validate", "--op", name, "--d", out}, words_of(name, file));
      const Json found = narrow_json(asked);
      CHECK(found["exact"] == true);
      CHECK(found["variant"] == "torch");
      CHECK(found["kernel"] == operation_rows(name)[0]->kernel(request_of(name, rows)));
      CHECK(found["equal_count"] == found["total"]);
      CHECK(found["max_ulp"] == 0);
      CHECK(found["first_difference"].is_null());
      CHECK(found["candidates"].size() >= 2);
      CHECK(found["candidates"][0]["variant"] == "torch");
      const test::Ran text = test::run(asked);
      CHECK(text.status == 0);
      CHECK(text.out.rfind("bit-exact: " + name + ", torch (", 0) == 0);
      if (name == "cross_entropy") continue;  // one number: a flipped bit is the other variant's
      std::string broken = test::read_file(out);
      broken[broken.size() - static_cast<std::size_t>(type.format.width()) / 8] ^= 1;
      folder.write("out.safetensors", broken);
      const Json near = test::failing_json(asked);
      CHECK(near["exact"] == false);
      CHECK(near["variant"] == "torch");
      CHECK(near["equal_count"].get<std::uint64_t>() + 1 == near["total"].get<std::uint64_t>());
      CHECK(near["max_ulp"] == 1);
      const Json last = shape == "[2,3]" ? Json::parse("[1,2]") : Json::parse("[1,2,39]");
      CHECK(near["first_difference"]["index"] == last);
      CHECK(near["first_difference"]["expected"] != near["first_difference"]["found"]);
      const test::Ran told = test::run(asked);
      CHECK(told.status == 1);
      CHECK(told.out.rfind("not bit-exact; the nearest: " + name + ", torch (", 0) == 0);
      CHECK(contains(told.out, "1 differ, the first at"));
    }
  }
}

TEST_CASE("apps: validate --op tells variants apart and says where the data cannot") {
  const Rows rows(types[2]);
  const Folder folder;
  const std::string file = folder.write("in.safetensors", rows.file()), out = folder / "out.npy";
  for (const std::string variant : {"torch", "torch-2.9", "exact"}) {
    CHECK(test::run({"op", "sum", "--x", file + ":x", "--variant", variant, "-o", out}).status == 0);
    CHECK(narrow_json({"validate", "--op", "sum", "--x", file + ":x", "--d", out})["variant"] == variant);
  }
  // D is exact: held against another it is not.
  const Json other =
      test::failing_json({"validate", "--op", "sum", "--x", file + ":x", "--d", out, "--variant", "torch"});
  CHECK(other["variant"] == "torch");
  CHECK(other["candidates"].size() == 1);
  const std::string ones = folder.write("ones.npy", test::npy_of("<f4", "(1, 8)", test::raw(std::vector<float>(8, 1))));
  const std::string eight = folder.write("eight.npy", test::npy_of("<f4", "(1,)", test::raw(std::vector<float>{8})));
  const test::Ran all = test::run({"validate", "--op", "sum", "--x", ones, "--d", eight});
  CHECK(all.status == 0);
  CHECK(contains(all.out, "this data does not tell these apart: torch, torch-2.9, exact"));
}

TEST_CASE("apps: a NaN is equal only with the code that kernels write and a report says when that is all") {
  const Folder folder;
  const float nan = std::bit_cast<float>(0x7FFFFFFFu), other = std::bit_cast<float>(0x7FC00000u);
  const std::string x = folder.write("x.npy", test::npy_of("<f4", "(2,)", test::raw(std::vector<float>{nan, 0})));
  const auto d = [&](std::vector<float> values) {
    return folder.write("d.npy", test::npy_of("<f4", "(2,)", test::raw(values)));
  };
  CHECK(narrow_json({"validate", "--op", "silu", "--x", x, "--d", d({nan, 0})})["exact"] == true);
  const std::string coded = d({other, 0});
  const Json said = test::failing_json({"validate", "--op", "silu", "--x", x, "--d", coded});
  CHECK(said["nan_codes"] == 1);
  CHECK(said["equal_count"] == 1);
  const test::Ran text = test::run({"validate", "--op", "silu", "--x", x, "--d", coded});
  CHECK(contains(text.out, "all differences are codes of NaN: the kernels write 0x7FFFFFFF"));
  const Json one_side = test::failing_json({"validate", "--op", "silu", "--x", x, "--d", d({1, 0})});
  CHECK(one_side["nan_mismatch"] == 1);
  check_refused({"validate", "--op", "silu", "--x", x, "--d", d({nan, nan})}, {"every output is NaN"});
}

TEST_CASE("apps: attention by the command is that of the library") {
  const Format f = "bf16"_fmt;
  const auto q = normal_codes(2 * 4 * 24 * 16, f, 1), k = normal_codes(2 * 2 * 24 * 16, f, 2),
             v = normal_codes(2 * 2 * 24 * 16, f, 3);
  const std::vector<std::uint16_t> q16(q.begin(), q.end()), k16(k.begin(), k.end()), v16(v.begin(), v.end());
  const Folder folder;
  const std::string file =
      folder.write("in.safetensors",
                   test::safetensors_of({{"q", "BF16", "[2,4,24,16]", bytes_of(q, f)},
                                         {"k", "BF16", "[2,2,24,16]", bytes_of(k, f)},
                                         {"v", "BF16", "[2,2,24,16]", bytes_of(v, f)},
                                         {"one", "BF16", "[4,16]", bytes_of({q.begin(), q.begin() + 64}, f)},
                                         {"flat", "BF16", "[1,1,4,16]", bytes_of({q.begin(), q.begin() + 64}, f)},
                                         {"deep", "BF16", "[1,1,1,4,16]", bytes_of({q.begin(), q.begin() + 64}, f)}}));
  const std::vector<std::string> in{"--q", file + ":q", "--k", file + ":k", "--v", file + ":v"};
  const std::string out = folder / "o.safetensors";
  for (const bool causal : {false, true})
    for (const char* scale : {"", "0.3"}) {
      AttentionRequest r{.type = f, .batch = 2, .heads = 4, .kv_heads = 2, .queries = 24, .keys = 24, .dim = 16};
      r.q = q16, r.k = k16, r.v = v16, r.causal = causal;
      std::vector<std::string> more = in;
      if (causal) more.push_back("--causal");
      if (*scale != '\0') r.scale = 0.3, more.insert(more.end(), {"--scale", scale});
      for (const AttentionRow* row : attention_rows()) {
        if (row->kernel(r).empty()) continue;
        CAPTURE(row->variant);
        const std::string variant(row->variant);
        const Json said = narrow_json(joined({"op", "attention", "--variant", variant, "-o", out}, more));
        CHECK(said["kernel"] == row->kernel(r));
        const std::vector<std::uint16_t> o = run_attention(variant, r);
        CHECK(test::data_of(test::read_file(out)) == test::raw(o));
        const Json found = narrow_json(joined({"validate", "--op", "attention", "--d", out}, more));
        CHECK(found["exact"] == true);
        for (const Json& c : found["candidates"])  // so little data does not tell all of them apart
          if (c["variant"] == variant) CHECK(c["equal_count"] == found["total"]);
        if (variant == "cudnn" || variant == "math") CHECK(found["variant"] == variant);
      }
      CHECK(narrow_json(joined({"op", "attention"}, more))["variant"] == "cudnn");
    }
  // One head: cuBLAS chooses the orders of the sums, and the result tells them.
  const std::vector<std::string> one{"--q", file + ":one", "--k", file + ":one", "--v", file + ":one"};
  check_refused(joined({"op", "attention", "--variant", "math"}, one), {"--variant: math", "--plan split:32/chain"});
  check_refused(joined({"op", "attention", "--variant", "math", "--plan", "chain"}, one), {"--plan: 'chain'", "pair of orders"});
  check_refused(joined({"op", "attention", "--variant", "math", "--plan", "chain/spilt:4"}, one), {"--plan", "spilt:4"});
  const Json of_one = narrow_json(joined({"op", "attention", "--variant", "math", "--plan", "split:4/chain", "-o", out}, one));
  CHECK(of_one["kernel"] == "sgemm split:4, softmax, sgemm chain");
  CHECK(narrow_json(joined({"validate", "--op", "attention", "--variant", "math", "--d", out}, one))["exact"] == true);
  const auto status = [&](const std::string& variant, const std::string& d) {
    return test::run(joined({"validate", "--op", "attention", "--variant", variant, "--d", d}, one)).status;
  };
  CHECK(status("flash2", file + ":one") == 1);  // no search where another kernel was asked for
  CHECK(status("math", file + ":one") == 1);
  check_refused(joined({"op", "attention", "--plan", "chain/chain"}, one), {"--plan", "--variant math"});
  check_refused(joined({"op", "attention", "--variant", "math", "--plan", "chain/chain"}, in), {"--plan", "batched product"});
  check_refused(joined({"op", "attention", "--variant", "math", "--plan", "streamk:9/chain"}, one), {"--plan", "streamk:9"});
  check_refused({"op", "--plan", "chain/chain"}, {"op: which one?"});
  // Ones in front may be left out.
  const auto codes = [&](const std::string& t) {
    return narrow_json(
        {"op", "attention", "--q", file + ":" + t, "--k", file + ":" + t, "--v", file + ":" + t})["first_codes"];
  };
  CHECK(codes("one") == codes("flat"));
  check_refused({"op", "attention", "--q", file + ":deep", "--k", file + ":deep", "--v", file + ":deep"},
                {"[1, 1, 1, 4, 16]", "[batch, heads, length, dimension]"});
  check_refused({"op", "attention", "--q", file + ":k", "--k", file + ":q", "--v", file + ":q"},
                {"q is", "fewer heads"});
  check_refused({"op", "attention", "--q", file + ":q", "--k", file + ":k"}, {"--v is missing"});
  check_refused(joined({"op", "attention", "--variant", "flash3"}, in), {"'flash3'", "did you mean 'flash2'"});
  check_refused(joined({"op", "attention", "--scale", "nan"}, in), {"--scale", "finite"});
}

TEST_CASE("apps: linear is the product that gemm computes and validate finds its model and plan") {
  const Folder folder;
  const auto f = "fp16"_fmt;
  const auto x = normal_codes(2 * 8 * 512, f, 1), w = normal_codes(24 * 512, f, 2), b = normal_codes(24, f, 3);
  const std::string file =
      folder.write("in.safetensors", test::safetensors_of({{"x", "F16", "[2,8,512]", bytes_of(x, f)},
                                                           {"flat", "F16", "[16,512]", bytes_of(x, f)},
                                                           {"w", "F16", "[24,512]", bytes_of(w, f)},
                                                           {"b", "F16", "[24]", bytes_of(b, f)}}));
  const std::string out = folder / "d.safetensors", same = folder / "same.safetensors";
  const std::string model = "hopper.wgmma.f32.f16.f16";
  const std::vector<std::string> in{"--x", file + ":x", "--w", file + ":w", "--b", file + ":b"};
  for (const std::string plan : {"chain", "split:128,output,c=after"}) {
    CAPTURE(plan);
    const Json said = narrow_json(joined({"op", "linear", "--variant", plan, "-o", out}, in));
    CHECK(said["kernel"] == model);
    CHECK(said["variant"] == plan);
    CHECK(said["shape"] == Json::parse("[2,8,24]"));
    CHECK(test::run({"gemm", "--model", model, "--plan", plan, "--a", file + ":flat", "--b", file + ":w",
                     "--transpose-b", "--c", file + ":b", "--output", "fp16", "-o", same})
              .status == 0);
    CHECK(test::data_of(test::read_file(out)) == test::data_of(test::read_file(same)));
    const std::vector<std::string> asked =
        joined({"validate", "--op", "linear", "--d", out, "--gpu", "h200", "--variant", plan, "--model", model}, in);
    const Json found = narrow_json(asked);
    CHECK(found["exact"] == true);
    CHECK(found["variant"] == model + ", " + plan);
    CHECK(found["total"] == 16 * 24);
    CHECK(found["candidates"][0]["variant"] == found["variant"]);
    std::string broken = test::read_file(out);
    broken[broken.size() - 2] ^= 1;
    folder.write("d.safetensors", broken);
    const Json near = test::failing_json(asked);
    CHECK(near["equal_count"] == 16 * 24 - 1);
    CHECK(near["first_difference"]["index"] == Json::parse("[1,7,23]"));
  }
  CHECK(test::run(joined({"op", "linear", "-o", out}, in)).status == 0);
  const Json any = narrow_json(joined({"validate", "--op", "linear", "--d", out, "--gpu", "h200"}, in));
  CHECK(any["variant"].get<std::string>().rfind("hopper.", 0) == 0);
  check_refused({"op", "linear", "--x", file + ":x", "--w", file + ":b"}, {"[.., in] and [out, in]"});
  check_refused({"op", "linear", "--x", file + ":x"}, {"--w is missing"});
  check_refused({"op", "linear", "--x", file + ":x", "--w", file + ":w", "--b", file + ":w"}, {"--b", "24 outputs"});
  check_refused(joined({"op", "linear", "--variant", "chian"}, in), {"--variant", "'chian'"});
  check_refused(joined({"op", "linear", "--model", "hopper.wgmma.f32.bf16.bf16"}, in),
                {"--model", "bf16", "x is fp16"});
  check_refused(joined({"validate", "--op", "linear", "--plan", "chain", "--d", out}, in), {"--plan", "--variant"});
}

TEST_CASE("apps: op takes codes in integers and a weight of rms_norm in another type and Fortran order") {
  const Folder folder;
  const Format bf = "bf16"_fmt;
  const Rows rows(types[1]);
  const std::string file = folder.write("in.safetensors", rows.file());
  const std::string u16 = folder.write("x.npy", test::npy_of("<u2", "(2, 3, 40)", bytes_of(rows.x, bf)));
  const Json plain = narrow_json({"op", "softmax", "--x", file + ":x"});
  CHECK(narrow_json({"op", "softmax", "--x", u16, "--x-format", "bf16"}) == plain);
  check_refused({"op", "softmax", "--x", u16}, {"--x", "--x-format bf16"});
  check_refused({"op", "softmax", "--x", file + ":x", "--x-format", "fp16"}, {"--x-format"});
  // .npy has no BF16: codes go out as integers, as those of gemm do.
  const std::string out = folder / "out.npy";
  CHECK(test::run({"op", "softmax", "--x", file + ":x", "-o", out}).status == 0);
  CHECK(contains(test::read_file(out), "'descr': '<u2'"));
  check_refused({"validate", "--op", "softmax", "--x", file + ":x", "--d", out}, {"--d", "--d-format bf16"});
  CHECK(narrow_json({"validate", "--op", "softmax", "--x", file + ":x", "--d", out, "--d-format", "bf16"})["exact"] ==
        true);

  const std::string w32 =
      folder.write("w.npy", test::npy_of("<f4", "(40,)", test::raw(std::vector<float>(40, 0x1.000002p0f))));
  const Json mixed = narrow_json({"op", "rms_norm", "--x", file + ":x", "--w", w32});
  CHECK(mixed["variant"] == "torch-composite");
  CHECK(mixed["format"] == "bf16");
  check_refused({"op", "rms_norm", "--x", file + ":x", "--w", w32, "--variant", "torch"},
                {"torch does not take these operands", "torch-composite"});
  check_refused({"op", "layer_norm", "--x", file + ":x", "--w", w32}, {"--w", "F32", "x is BF16"});

  const std::string c = folder.write("c.npy", test::npy_of("<f4", "(2, 2)", test::raw(std::vector<float>{1, 2, 3, 4})));
  const std::string fortran =
      folder.write("f.npy", test::npy_of("<f4", "(2, 2)", test::raw(std::vector<float>{1, 3, 2, 4}), true));
  CHECK(narrow_json({"op", "sum", "--x", c})["first_values"] == Json::parse("[3.0, 7.0]"));
  CHECK(narrow_json({"op", "sum", "--x", fortran})["first_values"] == Json::parse("[3.0, 7.0]"));
  CHECK(narrow_json({"op", "silu", "--x", c, "--threads", "1"}) ==
        narrow_json({"op", "silu", "--x", c, "--threads", "3"}));
}

TEST_CASE("apps: op computes gradients from the operands that each asks for") {
  const Folder folder;
  const auto f4 = [&](const char* name, const char* shape, const std::vector<float>& values) {
    return folder.write(name, test::npy_of("<f4", shape, test::raw(values)));
  };
  const std::string x = f4("x.npy", "(2, 2)", {1, 2, 3, 4}), g = f4("g.npy", "(2, 2)", {1, 10, 100, 1000}),
                    one = f4("one.npy", "(1,)", {2}), w = f4("w.npy", "(2,)", {1, 1});
  const std::string target =
      folder.write("t.npy", test::npy_of("<i8", "(2,)", test::raw(std::vector<std::int64_t>{2, 0})));
  CHECK(narrow_json({"op", "sum_rows", "--x", g})["first_values"] == Json::parse("[101.0, 1010.0]"));
  CHECK(narrow_json({"op", "layer_norm_backward_b", "--g", g})["shape"] == Json::parse("[2]"));
  const Json table = narrow_json({"op", "embedding_backward", "--g", g, "--target", target, "--words", "4"});
  CHECK(table["shape"] == Json::parse("[4, 2]"));
  CHECK(table["first_values"] == Json::parse("[100.0, 1000.0, 0.0, 0.0, 1.0, 10.0, 0.0, 0.0]"));
  // The gradient of a softmax is y (g - sum of y g): that of equal gradients is 0, that of a shift is not there.
  const std::string y = f4("y.npy", "(1, 2)", {0.5, 0.5}), same = f4("s.npy", "(1, 2)", {3, 3});
  CHECK(narrow_json({"op", "softmax_backward", "--x", y, "--g", same})["first_values"] == Json::parse("[0.0, 0.0]"));
  const Json loss = narrow_json(
      {"op", "cross_entropy_backward", "--x", x, "--target",
       folder.write("u.npy", test::npy_of("<i8", "(2,)", test::raw(std::vector<std::int64_t>{1, 0}))), "--g", one});
  CHECK(loss["shape"] == Json::parse("[2, 2]"));
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& why) {
    const test::Ran ran = test::run(arguments);
    CHECK(ran.status == 2);
    CHECK_MESSAGE(contains(ran.err, why), ran.err);
  };
  refused({"op", "gelu_backward", "--x", x}, "--g is missing");
  refused({"op", "gelu", "--x", x, "--g", g}, "takes no --g");
  refused({"op", "gelu_backward", "--x", x, "--g", w}, "they are the same");
  refused({"op", "cross_entropy_backward", "--x", x, "--target", target, "--g", g}, "the loss has one gradient");
  refused({"op", "embedding_backward", "--g", g, "--target", target}, "--words is missing");
  refused({"op", "embedding_backward", "--g", g, "--target", target, "--words", "2"}, "2 is no word of 2");
  refused({"op", "embedding_backward", "--g", g, "--target", target, "--words", "0.5"}, "no number of words");
}

TEST_CASE("apps: op and validate --op name the backward pass of attention") {
  const Folder folder;
  const std::string file = folder.write("qkv.safetensors", test::random_file({{"q", "BF16", 64, 64, "bf16"_fmt},
                                                                              {"k", "BF16", 64, 64, "bf16"_fmt},
                                                                              {"v", "BF16", 64, 64, "bf16"_fmt},
                                                                              {"g", "BF16", 64, 64, "bf16"_fmt}}));
  std::vector<std::string> operands;
  for (const char* name : {"q", "k", "v", "g"})
    operands.insert(operands.end(), {std::string("--") + name, file + ":" + name});
  for (const std::string part : {"q", "k", "v"}) {
    const std::string out = folder / ("d" + part + ".safetensors");
    std::vector<std::string> op{"op", "attention_backward_" + part, "-o", out},
        validate{"validate", "--op", op[1], "--d", out};
    op.insert(op.end(), operands.begin(), operands.end()),
        validate.insert(validate.end(), operands.begin(), operands.end());
    CHECK(narrow_json(op)["variant"] == "flash2");
    CHECK(narrow_json(validate)["exact"] == true);
  }
}

TEST_CASE("apps: op lists what there is") {
  const Json list = narrow_json({"op"});
  CHECK(list == narrow_json({"op", "--list"}));
  const std::vector<const AttentionRow*> attentions = attention_rows();
  const auto backward = static_cast<std::size_t>(std::count_if(
      attentions.begin(), attentions.end(), [](const AttentionRow* row) { return row->run_backward != nullptr; }));
  CHECK(list.size() == operation_rows().size() + attentions.size() + 3 * backward + 1);
  for (const OperationRow* row : operation_rows()) CHECK(contains(test::run({"op"}).out, std::string(row->what)));
  CHECK(narrow_json({"op", "sum", "--list"}).size() == 3);
  const std::string x = test::run({"op", "--help"}).out;
  CHECK(contains(x, "Example:\n  narrow op "));
}

TEST_CASE("apps: op and validate --op refuse what does not fit in a line") {
  const Rows rows(types[0]);
  const Folder folder;
  const std::string file = folder.write("in.safetensors", rows.file()), x = file + ":x";
  const std::string fp8 = folder.write("e.safetensors", test::random_file({{"x", "F8_E4M3", 2, 4, "e4m3"_fmt}}));
  const std::string wide = folder.write("w.npy", test::npy_of("<f8", "(1,)", std::string(8, '\0')));
  const std::string empty = folder.write("empty.npy", test::npy_of("<f2", "(0, 3)", ""));
  const std::string nothing = folder.write("nothing.npy", "");
  const std::string floats = folder.write("t.npy", test::npy_of("<f4", "(2, 3)", std::string(24, '\0')));
  const std::string far =
      folder.write("far.npy", test::npy_of("<i4", "(2, 3)", test::raw(std::vector<std::int32_t>{0, 1, 2, 3, 4, 40})));
  const std::string out = folder / "out.npy";
  CHECK(test::run({"op", "softmax", "--x", x, "-o", out}).status == 0);

  check_refused({"op", "sofmax", "--x", x}, {"'sofmax'", "did you mean 'softmax'", "attention"});
  check_refused({"op", "--x", x}, {"which one"});
  check_refused({"op", "softmax", "gelu", "--x", x}, {"'gelu'"});
  check_refused({"op", "softmax"}, {"--x is missing"});
  check_refused({"op", "softmax", "--x", x, "--w", file + ":w"}, {"softmax", "takes no --w", "--x"});
  check_refused({"op", "softmax", "--x", x, "--causal"}, {"takes no --causal"});
  check_refused({"op", "gelu", "--x", x, "--eps", "1"}, {"takes no --eps"});
  check_refused({"op", "softmax", "--x", x, "--model", "hopper"}, {"takes no --model"});
  check_refused({"op", "layer_norm", "--x", x, "--w", x}, {"--w", "240 numbers", "40"});
  check_refused({"op", "layer_norm", "--x", x, "--eps", "x"}, {"--eps", "'x'"});
  check_refused({"op", "softmax", "--x", x, "--variant", "tourch"}, {"--variant", "did you mean 'torch'", "double"});
  check_refused({"op", "softmax", "--x", fp8}, {"--x", "F8_E4M3", "F16, BF16 and F32"});
  check_refused({"op", "softmax", "--x", wide}, {"--x", "F64", "F16, BF16 and F32"});
  check_refused({"op", "softmax", "--x", far}, {"--x", "I32", "--x-format fp32"});
  check_refused({"op", "softmax", "--x", file + ":target"}, {"--x", "I64", "F16, BF16 and F32"});
  check_refused({"op", "softmax", "--x", far, "--x-format", "tf32"}, {"--x", "F16, BF16 and F32"});
  check_refused({"op", "softmax", "--x", empty}, {"--x", "[0, 3]", "empty"});
  check_refused({"op", "softmax", "--x", nothing}, {"--x", "nothing.npy"});
  check_refused({"op", "softmax", "--x", folder / "none.npy"}, {"--x", "none.npy"});
  check_refused({"op", "softmax", "--x", file}, {"--x", "target"});
  check_refused({"op", "softmax", "--x", x, "-o", folder / "d.txt"}, {"-o", ".npy"});
  check_refused({"op", "softmax", "--x", x, "-o", folder / "no/d.npy"}, {"no/d.npy"});
  check_refused({"op", "softmax", "--x", x, "--threads", "0"}, {"--threads"});
  check_refused({"op", "cross_entropy", "--x", x}, {"--target is missing"});
  check_refused({"op", "cross_entropy", "--x", x, "--target", floats}, {"--target", "F32", "integers"});
  check_refused({"op", "cross_entropy", "--x", x, "--target", far}, {"--target", "40 is no column"});
  check_refused({"op", "attention", "--q", floats, "--k", floats, "--v", floats}, {"--q", "F16 and BF16"});
  CHECK(!std::filesystem::exists(folder / "d.txt"));

  const auto refused = [&](std::vector<std::string> more, const std::vector<std::string>& words) {
    more.insert(more.begin(), {"validate", "--op"});
    check_refused(more, words);
  };
  refused({"sofmax", "--x", x, "--d", out}, {"'sofmax'", "did you mean 'softmax'"});
  refused({"softmax", "--x", x}, {"--d is missing"});
  refused({"softmax", "--d", out}, {"--x is missing"});
  refused({"softmax", "--x", x, "--d", floats}, {"--d", "F32", "fp16"});
  refused({"softmax", "--x", x, "--d", fp8}, {"--d", "F8_E4M3"});
  refused({"softmax", "--x", x, "--d", file + ":w"}, {"--d", "[40]", "[2, 3, 40]"});
  refused({"sum", "--x", x, "--d", out}, {"--d", "[2, 3, 40]", "[2, 3]"});
  refused({"softmax", "--x", x, "--d", empty}, {"--d", "empty"});
  refused({"softmax", "--x", x, "--d", nothing}, {"--d", "nothing.npy"});
  refused({"softmax", "--x", x, "--d", out, "--a", x}, {"--a", "product"});
  refused({"softmax", "--x", x, "--d", out, "--gpu", "h200"}, {"--gpu"});
  refused({"softmax", "--x", x, "--d", out, "--variant", "flash2"}, {"--variant", "'flash2'"});
  check_refused({"validate", "--x", x, "--d", out}, {"--x", "needs --op"});
  check_refused({"validate", "--a", x, "--b", x, "--d", out, "--causal"}, {"--causal", "needs --op"});
}
