// The plan of a product told before it runs, against the plans that were found afterwards.
#include "narrow/golden/plan_prediction.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "cuda/golden_folder.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/dot/trials.hpp"
#include "narrow/golden/torch_products.hpp"
#include "support/contains.hpp"
#include "support/scale.hpp"

namespace {

using narrow::PlanPrediction;
using narrow::RecordedProduct;

const std::vector<RecordedProduct>& recorded() {
  static const auto products = narrow::read_recorded_products(test::read_text(NARROW_DATA "/golden/products.tsv"));
  return products;
}

}  // namespace

TEST_CASE("golden: the algorithm's numbers foretell the plan of nearly every recorded product") {
  std::size_t right = 0, total = 0, streams = 0;
  for (const RecordedProduct& r : recorded()) {
    if (r.model == "software.fma") continue;
    const PlanPrediction p = narrow::plan_of_algorithm(narrow::find_product_type(r.type), r.shape, r.algorithm);
    const bool same = p.model == r.model && narrow::same_sums(p, {r.model, r.plan}, r.shape);
    ++total, right += same ? 1 : 0;
    if (!same && r.algorithm.split_k < 0) ++streams;
    const std::string product = r.type + " " + std::to_string(r.shape.m) + " x " + std::to_string(r.shape.n) + " x " +
                                std::to_string(r.shape.k);
    if (!same)
      MESSAGE(product << " " << r.algorithm.text() << ": foretold " << p.plan << ", found " << r.model << " "
                      << r.plan);
  }
  CHECK(total >= 700);
  CHECK(total - right <= 7);  // two stream-K cuts; the others are outputs of 16 bits that several plans give
  CHECK(streams == 2);
}

TEST_CASE("golden: torch's question to cuBLASLt foretells the plan of nearly every product through torch") {
  // 4,000 products of random shapes; the rules were written when the first 249 of these 400 shapes were known.
  const auto all = narrow::read_torch_products(test::read_text(NARROW_DATA "/golden/torch-products.tsv"));
  std::size_t named = 0, open = 0, right = 0, too_long = 0;
  std::map<std::string, std::size_t> wrong;
  for (const narrow::RecordedTorchProduct& r : all) {
    if (r.model.empty() || !r.algorithm) continue;
    ++named;
    const narrow::TorchProduct p = narrow::torch_product(r.function, r.type, r.shape, r.batch, r.library);
    const PlanPrediction foretold = narrow::plan_of_algorithm(p.type, p.shape, *r.algorithm, p.call.bias);
    if (foretold.model.empty()) ++open;
    else if (narrow::same_sums(foretold, {r.model, r.plan}, p.shape)) ++right;
    else if (r.products() > 2e6 * test::scale()) ++too_long;
    // Outputs of 16 bits are often those of several plans.
    else if (narrow::torch_product_hash(r, foretold.model, foretold.plan) == r.hash) ++right;
    else
      ++wrong[foretold.model + ", " + foretold.plan + " is " + r.model + ", " + r.plan + " (" + r.algorithm->text() +
              ")"];
  }
  MESSAGE(named << " named, " << right << " foretold, " << open << " left open, " << too_long
                << " not decided in this time");
  for (const auto& [text, count] : wrong) MESSAGE(count << ": " << text);
  CHECK(named > 3500);
  CHECK(open < named / 10);
  CHECK(too_long < named / 10);
  CHECK(50 * (named - open - too_long - right) < right);  // 98 %
}

// What is tried depends on the shape, the formats and on whether there is a bias, and not on the numbers.
TEST_CASE("golden: the search has time for every plan that was found for a product through torch") {
  std::set<std::string> asked;
  std::map<std::string, std::size_t> missing;
  for (const narrow::RecordedTorchProduct& r :
       narrow::read_torch_products(test::read_text(NARROW_DATA "/golden/torch-products.tsv"))) {
    if (r.model.empty() || r.type == "s8" || r.plan.starts_with("chain")) continue;
    const std::string name = r.type + " " + r.function + ", K = " + std::to_string(r.shape.k) + ": " + r.plan;
    if (!asked.insert(name).second || (test::scale() < 0.1 && asked.size() % 16 != 0)) continue;
    const narrow::ProductType type = narrow::torch_product(r.function, r.type, r.shape, r.batch, r.library).type;
    const auto m = static_cast<std::size_t>(r.shape.m), n = static_cast<std::size_t>(r.shape.n),
               k = static_cast<std::size_t>(r.shape.k);
    const auto stored = [](const std::string& format) {  // that of TF32 is FP32's
      return narrow::find_format(format == "tf32" ? "fp32" : format).value();
    };
    narrow::ValidateRequest request;
    request.a_format = stored(type.a), request.b_format = stored(type.b), request.d_format = stored(type.d);
    std::vector<std::uint32_t> codes(k);
    codes[0] = 1;  // subnormal: with zeros alone all orders were one
    const int bytes = request.a_format.width() / 8;
    request.a = {codes.data(), bytes, 1, k, k};
    request.b = {codes.data(), bytes, k, 1, 1};
    request.d = {codes.data(), request.d_format.width() / 8, m, n, n};
    if (r.function == "linear+bias") request.c = {codes.data(), request.d.code_bytes, 1, n, 0};
    request.gpu = narrow::Generation::hopper;
    const narrow::detail::Search search = narrow::detail::prepare_search(request, {.of_gpu = true});
    const narrow::DotModel& model = *narrow::find_dot_model(r.model);
    const bool found = std::any_of(search.trials.begin(), search.trials.end(), [&](const narrow::detail::Trial& t) {
      return std::any_of(t.members.begin(), t.members.end(), [&](const narrow::detail::Pair& pair) {
        return narrow::same_arithmetic(search.model(pair), model) && narrow::plan_text(pair.plan) == r.plan;
      });
    });
    if (!found) ++missing[name + " of " + std::to_string(search.trials.size()) + " trials"];
  }
  for (const auto& [text, count] : missing) MESSAGE(count << ": " << text);
  CHECK(asked.size() > 500);
  CHECK(missing.empty());
}

TEST_CASE("golden: a recorded shape is foretold as it was found") {
  for (const RecordedProduct& r : recorded()) {
    if (r.model.empty()) continue;
    const PlanPrediction p = narrow::predict_plan(recorded(), narrow::find_product_type(r.type), r.shape, r.algorithm);
    CHECK(p.recorded);
    CHECK(p.plan == r.plan);
  }
  narrow::ProductAlgorithm other = recorded().front().algorithm;
  other.tile = 999;  // another kernel: the recording does not count
  CHECK(!narrow::predict_plan(recorded(), narrow::find_product_type(recorded().front().type), recorded().front().shape,
                              other)
             .recorded);
}

TEST_CASE("golden: a table of products names its cuBLAS and torch and is refused without") {
  const std::string table = test::read_text(NARROW_DATA "/golden/products.tsv");
  const narrow::ProductOrigin origin = narrow::read_product_origin(table);
  CHECK(origin.text() == "NVIDIA H200, cuBLAS of CUDA 13.0 (its own number was not recorded), without torch");
  for (const std::string key : {"gpu", "toolkit", "cublas", "torch"}) {
    std::string without = table;
    without.replace(without.find("# " + key), 3, "# not ");
    CHECK_THROWS_WITH_AS(narrow::read_product_origin(without), doctest::Contains(("'# " + key).c_str()), narrow::Error);
  }
}

TEST_CASE("golden: another cuBLAS than the recorded one is warned of and an unknown one is said to be") {
  const auto warning = [](const std::string& recorded, const narrow::CublasVersion& used) {
    return narrow::version_warning({"gpu", "13.0", recorded, "none"}, used);
  };
  CHECK(warning("13.1.0", {"13.1.0", "13.0"}) == "");
  CHECK(warning("13.1.0", {"13.0.2", "13.0"}).find("another cuBLAS (13.1.0, not 13.0.2)") != std::string::npos);
  CHECK(warning("CUDA 13.0", {"13.0.2", "13.0"}) == "");
  CHECK(warning("CUDA 13.0", {"13.2.0", "13.1"}).find("another cuBLAS") != std::string::npos);
  CHECK(warning("CUDA 13.0", narrow::parse_cublas_version("12.8.4")).find("another cuBLAS") != std::string::npos);
  CHECK(warning("CUDA 13.0", narrow::parse_cublas_version("13.1.0")).find("was not recorded") != std::string::npos);
  CHECK(warning("13.1.0", narrow::parse_cublas_version("CUDA 13.0")).find("was not recorded") != std::string::npos);
  CHECK(warning("CUDA 13.0", narrow::parse_cublas_version("CUDA 13.0")) == "");
  for (const char* text : {"", "13", "13.", "a.b", "13.0x", "CUDA", "cuda 13.0"})
    CHECK_THROWS_AS(narrow::parse_cublas_version(text), narrow::Error);
}

TEST_CASE("golden: a broken table of products is refused by line") {
  const std::string head = "# gpu\ntype\tm\tn\tk\tseed\talgorithm\tmodel\tplan\toutputs\tequal\thash\n";
  const std::string algorithm = "id 1 tile 2 stages 3 split-k 4 reduction 5 swizzle 6 custom 7 inner 8 cluster 9";
  CHECK(narrow::read_recorded_products(head + "f16\t1\t2\t3\t1\t" + algorithm + "\tm\tchain\t1\t1\t0\n").size() == 1);
  for (const std::string& line : {std::string("f16\t1\t2\n"), "f16\tx\t2\t3\t1\t" + algorithm + "\tm\tchain\t1\t1\t0\n",
                                  std::string("f16\t1\t2\t3\t1\tid 1\tm\tchain\t1\t1\t0\n"),
                                  "f16\t1\t2\t3\t1\tdi" + algorithm.substr(2) + "\tm\tchain\t1\t1\t0\n"})
    CHECK(contains(test::error_of([&] { (void)narrow::read_recorded_products(head + line); }), "line 3"));
}
