#include "analysis/experiments/attention_file.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "stored.hpp"

using namespace analysis;
using test::has;
using test::Stored;
using test::stored;

namespace {

using Shape = std::vector<std::size_t>;

// One value of sequence b, head h, position t, place c: all different.
double value_at(std::size_t b, std::size_t h, std::size_t t, std::size_t c) {
  return static_cast<double>(((b * 16 + h) * 64 + t) * 16 + c + 1);
}

struct Sizes {
  std::size_t b, h, t, d;
};

// The same values in each layout.
Stored in_layout(const std::string& name, const std::string& layout, const Sizes& s, double sign = 1) {
  const bool merged = layout == "tc", three = layout == "htd";
  const Shape shape = merged             ? Shape{s.t, s.h * s.d}
                      : three            ? Shape{s.h, s.t, s.d}
                      : layout == "bhtd" ? Shape{s.b, s.h, s.t, s.d}
                      : layout == "bthd" ? Shape{s.b, s.t, s.h, s.d}
                                         : Shape{s.b, s.t, s.h * s.d};
  return stored(name, shape, [&](std::size_t i) {
    const std::size_t c = i % s.d, rest = i / s.d;
    const bool heads_inside = merged || layout == "btc" || layout == "bthd";
    const std::size_t h = heads_inside ? rest % s.h : rest / s.t % s.h;
    const std::size_t t = heads_inside ? rest / s.h % s.t : rest % s.t;
    return sign * value_at(rest / (s.h * s.t), h, t, c);
  });
}

Attention read(const std::vector<Stored>& tensors, AttentionRequest request = {}) {
  const test::Folder folder;
  request.file = folder.write("t.safetensors", test::file_of(tensors));
  return read_attention(request);
}

std::string refusal(const std::vector<Stored>& tensors, const AttentionRequest& request = {}) {
  const std::string text = test::error_of([&] { read(tensors, request); });
  CHECK(test::is_one_line(text));
  return text;
}

// Every query and key of every head is where it was put.
void check_heads(const AttentionLayer& layer, const Sizes& q, const Sizes& k) {
  REQUIRE(layer.heads.size() == q.b * q.h);
  for (std::size_t b = 0; b < q.b; ++b)
    for (std::size_t h = 0; h < q.h; ++h) {
      const Head& head = layer.heads[b * q.h + h];
      REQUIRE((head.n == q.t && head.m == k.t && head.d == q.d));
      CHECK((head.number == h && head.sequence == b));
      for (std::size_t c = 0; c < q.d; ++c) {
        for (std::size_t t = 0; t < q.t; ++t) CHECK(static_cast<double>(head.q[t * q.d + c]) == value_at(b, h, t, c));
        for (std::size_t t = 0; t < k.t; ++t)
          CHECK(static_cast<double>(head.k[t * q.d + c]) == -value_at(b, h / (q.h / k.h), t, c));
      }
    }
}

// One layer whose largest |q.k| is as given, in one head of two.
void add_layer(std::vector<Stored>& file, const std::string& prefix, double largest) {
  const auto one = [](std::size_t at, double x) { return [=](std::size_t i) { return i == at ? x : 0.0; }; };
  file.push_back(stored(prefix + "q", {2, 8, 4}, one(32 + 4 * 5, largest)));  // head 1, position 5
  file.push_back(stored(prefix + "k", {2, 8, 4}, one(32 + 4 * 3, 1)));        // position 3: before it
}

Outcome overflow_of(const std::vector<Stored>& tensors, std::vector<std::string> settings = {}) {
  const test::Folder folder;
  settings.insert(settings.end(),
                  {"longest=64", "trials=1", "attention=" + folder.write("t.safetensors", test::file_of(tensors))});
  return test::run_experiment("attention_overflow", settings);
}

}  // namespace

TEST_CASE("analysis: the worst of all layers and heads is in the headline by its name") {
  std::vector<Stored> file;
  add_layer(file, "blocks.0.attn.", 33);
  add_layer(file, "blocks.1.attn.", 54817);
  const Outcome below = overflow_of(file);
  CHECK(has(below.finding, "The largest |q.k| of t.safetensors is 54,817 (blocks.1.attn.q, head 1), 0.3 bits below"));
  add_layer(file, "blocks.2.attn.", 205114);
  const Outcome above = overflow_of(file);
  CHECK(has(above.finding,
            "t.safetensors overflows FP16 as it is recorded: the largest |q.k| is 205,114 "
            "(blocks.2.attn.q, head 1), scores of 1 of 6 heads in 1 of 3 layers"));
  CHECK_FALSE(has(above.finding, "bits below"));
  CHECK(has(above.plots[0].title, "overflow FP16 as they are recorded"));
  CHECK(above.tables[0].rows.size() == 6);
  // 1 of 48 rows is NaN; d = 4, so Q scaled first halves the score: 102,557 is still too much, unless scale= says less.
  CHECK(has(above.finding, "2.08 % of the softmax rows are NaN"));
  CHECK(has(above.finding, "with Q scaled first 2.08 % of the softmax rows still are"));
  CHECK(has(overflow_of(file, {"scale=0.125"}).finding, "with Q scaled first none of the softmax rows is"));
}

TEST_CASE("analysis: a score that only the mask hides is told apart from one that softmax sees") {
  const auto one = [](std::size_t at, double x) { return [=](std::size_t i) { return i == at ? x : 0.0; }; };
  // Query 2, key 6: in the future.
  std::vector<Stored> file = {stored("attn.q", {8, 4}, one(8, 70000)), stored("attn.k", {8, 4}, one(24, 1))};
  file[1].values[0] = 0.5;  // key 0, which query 2 sees
  const Outcome hidden = overflow_of(file);
  CHECK(has(hidden.finding, "is 70,000 (attn.q; 35,000 under the causal mask)"));
  CHECK(has(hidden.finding, "only in pairs that the mask hides"));
  CHECK(has(overflow_of(file, {"mask=none"}).finding, "overflows FP16 as it is recorded"));
}

TEST_CASE("analysis: queries and keys are found by the names that frameworks give") {
  const Shape shape{1, 4, 8, 4};
  for (const auto& names : std::vector<std::pair<const char*, const char*>>{
           {"attn.q", "attn.k"},
           {"act.blocks.3.attn.q", "act.blocks.3.attn.k"},
           {"model.layers.7.self_attn.q_proj", "model.layers.7.self_attn.k_proj"},
           {"decoder/layer_3/query", "decoder/layer_3/key"},
           {"bert.encoder.layer.0.attention.self.query", "bert.encoder.layer.0.attention.self.key"},
           {"layers.3.attention.wq", "layers.3.attention.wk"},
           {"layer0_q", "layer0_k"},
           {"q_0", "k_0"},
           {"q0", "k0"},
           {"down.attn1.to_q", "down.attn1.to_k"},
           {"query_states", "key_states"},
           {"layers.0.q_rot", "layers.0.k_cache"},
           {"Q", "K"},
           {"model.layers.0.self_attn.query", "past_key_values.0.key"}}) {
    const char *q = names.first, *k = names.second;
    CAPTURE(q);
    const Attention a = read({stored("labels", {3}), stored("x.weight", {4, 4}), stored(k, shape), stored(q, shape),
                              stored("attn.v", shape), stored("grad.attn.q", shape)});
    REQUIRE(a.layers.size() == 1);
    CHECK(a.layers[0].name == q);
    CHECK(a.layers[0].heads.size() == 4);
  }
}

TEST_CASE("analysis: every layout of queries and keys gives the same heads") {
  struct Case {
    const char* layout;
    Sizes q, k;
    std::size_t heads = 0;
    const char* asked = "auto";
  };
  for (const Case& c : {Case{"bhtd", {2, 4, 8, 4}, {2, 4, 8, 4}},  // the usual one
                        Case{"htd", {1, 2, 8, 4}, {1, 2, 8, 4}},   // one sequence
                        Case{"bhtd", {2, 4, 8, 4}, {2, 2, 8, 4}},  // grouped queries
                        Case{"bthd", {2, 4, 8, 4}, {2, 2, 8, 4}},  // the same in the other order
                        Case{"bhtd", {1, 4, 1, 4}, {1, 4, 8, 4}},  // one query and a cache
                        Case{"bthd", {1, 4, 1, 4}, {1, 4, 8, 4}},
                        Case{"bhtd", {1, 4, 2, 4}, {1, 2, 8, 4}},  // grouped queries and a cache
                        Case{"bthd", {1, 4, 2, 4}, {1, 2, 8, 4}},
                        Case{"bthd", {2, 4, 8, 4}, {2, 4, 8, 4}, 4},          // heads= tells which dimension
                        Case{"bthd", {2, 4, 8, 4}, {2, 4, 8, 4}, 0, "bthd"},  // or layout= does
                        Case{"btc", {2, 4, 8, 4}, {2, 4, 8, 4}, 4, "btc"},    // all heads in the last one
                        Case{"btc", {2, 4, 8, 4}, {2, 2, 8, 4}, 4, "btc"},
                        Case{"tc", {1, 4, 8, 4}, {1, 4, 8, 4}, 4},  // without a batch
                        Case{"tc", {1, 4, 1, 4}, {1, 2, 8, 4}, 4}}) {
    CAPTURE(c.layout);
    CAPTURE(c.heads);
    AttentionRequest request;
    request.heads = c.heads, request.layout = c.asked;
    const Attention a = read({in_layout("attn.q", c.layout, c.q), in_layout("attn.k", c.layout, c.k, -1)}, request);
    REQUIRE(a.layers.size() == 1);
    check_heads(a.layers[0], c.q, c.k);
  }
}

// [q | k | v] of all heads; of each group of heads; and with a dimension of 3.
TEST_CASE("analysis: queries and keys that one tensor holds are told apart") {
  constexpr std::size_t t = 3, d = 2;
  const auto fused = [&](const std::string& name, std::size_t heads, std::size_t keys, bool grouped) {
    const std::size_t width = (heads + 2 * keys) * d, group = heads / keys;
    return stored(name, {1, t, width}, [=](std::size_t i) {
      const std::size_t c = i % d, part = i % width / d, time = i / width;
      const std::size_t in_group = part % (group + 2), of = part / (group + 2);
      if (!grouped)
        return part < heads          ? value_at(0, part, time, c)
               : part < heads + keys ? -value_at(0, part - heads, time, c)
                                     : 1e6;
      return in_group < group    ? value_at(0, of * group + in_group, time, c)
             : in_group == group ? -value_at(0, of, time, c)
                                 : 1e6;
    });
  };
  AttentionRequest four, two;
  four.heads = two.heads = 4, two.kv_heads = 2;
  for (const char* name : {"h.0.attn.c_attn", "blocks.0.attn.qkv", "layers.0.self_attn.qkv_proj"}) {
    check_heads(read({fused(name, 4, 4, false)}, four).layers.at(0), {1, 4, t, d}, {1, 4, t, d});
    check_heads(read({fused(name, 4, 2, false)}, two).layers.at(0), {1, 4, t, d}, {1, 2, t, d});
    CHECK(has(refusal({fused(name, 4, 4, false)}), "heads=N"));
  }
  check_heads(read({fused("attention.query_key_value", 4, 4, true)}, four).layers.at(0), {1, 4, t, d}, {1, 4, t, d});
  check_heads(read({fused("linear_qkv", 4, 2, true)}, two).layers.at(0), {1, 4, t, d}, {1, 2, t, d});
  const auto packed = stored("qkv", {1, t, 3, 4, d}, [&](std::size_t i) {
    const std::size_t c = i % d, h = i / d % 4, which = i / (4 * d) % 3, time = i / (12 * d);
    return which == 0 ? value_at(0, h, time, c) : -value_at(0, h, time, c);
  });
  check_heads(read({packed}).layers.at(0), {1, 4, t, d}, {1, 4, t, d});
}

TEST_CASE("analysis: named queries and keys are taken from one layer or from all") {
  std::vector<Stored> file;
  for (const char* layer : {"layers.0.", "layers.1."})
    for (const char* name : {"q_proj", "q_norm", "k_proj", "k_norm"})
      file.push_back(stored(std::string(layer) + name, {2, 8, 4}));
  AttentionRequest ends, one, wrong;
  ends.q = "q_norm", ends.k = "k_norm";
  CHECK(read(file, ends).layers.size() == 2);
  one.q = "layers.1.q_proj", one.k = "layers.1.k_norm";
  CHECK(read(file, one).layers.at(0).name == "layers.1.q_proj");
  const std::string both = refusal(file);
  for (const char* word : {"layers.0.q_proj", "layers.0.q_norm", "could be the queries of one layer", "q=", "k="})
    CHECK_MESSAGE(has(both, word), both);
  wrong.q = "nothing", wrong.k = "k_norm";
  CHECK(has(refusal(file, wrong), "no tensor is called nothing"));
  CHECK(has(refusal(file, wrong), "layers.0.q_proj"));
  wrong.q = "";
  CHECK(has(refusal(file, wrong), "without q=NAME"));
  CHECK(
      has(refusal({stored("layers.0.q", {2, 8, 4}), stored("layers.1.q", {2, 8, 4}), stored("layers.0.k", {2, 8, 4})}),
          "layers.1.q has no key of its layer"));
  CHECK(has(refusal({stored("a", {2, 8, 4}), stored("model.q_proj.weight", {8, 8})}), "type q=NAME k=NAME"));
}

TEST_CASE("analysis: shapes that can be read in two ways are asked for and those that fit nothing are refused") {
  const auto tried = [](const Shape& q, const Shape& k, AttentionRequest request = {}) {
    return test::error_of([&] { read({stored("attn.q", q), stored("attn.k", k)}, request); });
  };
  AttentionRequest heads;
  heads.heads = 4;
  CHECK(has(tried({2, 8, 4, 4}, {2, 8, 4, 4}), "layout=bhtd) or 4 heads of 8 positions"));
  CHECK(has(tried({4, 8, 16}, {4, 8, 16}, heads), "layout=bhtd) or 4 heads of 8 positions, d = 4 (layout=btc)"));
  CHECK(has(tried({8, 4096}, {8, 4096}), "4096 is more than one head has; type heads=N"));
  for (const Shape& k : {Shape{2, 3, 8, 4}, Shape{1, 4, 8, 4}, Shape{2, 4, 7, 4}, Shape{2, 4, 8, 5}})
    CHECK_MESSAGE(has(tried({2, 4, 8, 4}, k), "which is no pair of"), k[0]);
  CHECK(has(tried({4}, {4}), "which is no pair of"));
  AttentionRequest unmasked;
  unmasked.causal = false, unmasked.layout = "bhtd";
  CHECK(tried({2, 4, 8, 4}, {2, 4, 7, 4}, unmasked) == "");
  // How it was read is said where another reading is possible.
  const Attention a = read({stored("attn.q", {4, 8, 4}), stored("attn.k", {4, 8, 4})});
  REQUIRE(a.notes.size() == 1);
  CHECK(has(a.notes[0], "4 heads of 8 positions, d = 4; layout=bthd reads 8 heads of 4 positions"));
}

TEST_CASE("analysis: NaN and Inf in queries and keys are counted and named in the headline") {
  std::vector<Stored> file;
  add_layer(file, "attn.", 33);
  file[0].values[0] = std::nan(""), file[1].values[1] = HUGE_VAL;
  const Outcome o = overflow_of(file);
  CHECK(has(o.finding, "q and k hold 1 NaN and 1 Inf"));
  CHECK(has(o.finding, "is 33 (attn.q, head 1)"));
}
