// The plan of a product told before it runs, against the plans that were found afterwards.
#include "narrow/golden/plan_prediction.hpp"

#include "cuda/golden_folder.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "support/contains.hpp"

namespace {

using narrow::PlanPrediction;
using narrow::RecordedProduct;

const std::vector<RecordedProduct>& recorded() {
  static const auto products = narrow::read_recorded_products(test::read_text(NARROW_DATA "/golden/products.tsv"));
  return products;
}

// Two plans can say the same of one K (residue=64 and residue=128 of 129): their chains decide. A step of nothing but
// zero products changes no sum, so it does not count.
bool same_chains(const std::string& x, const std::string& y, const RecordedProduct& r) {
  const narrow::DotModel* m = narrow::find_dot_model(r.model);
  REQUIRE(m != nullptr);
  const auto schedule = [&](const std::string& text) {
    const narrow::Plan plan = narrow::parse_plan(text);
    narrow::Schedule s =
        narrow::make_schedule(plan, *m, static_cast<std::size_t>(r.shape.k), static_cast<std::size_t>(r.shape.n),
                              static_cast<std::size_t>(r.shape.m));
    std::vector<std::vector<std::int32_t>> chains;
    for (const narrow::Segment& segment : s.segments) {
      chains.emplace_back();
      const auto step = static_cast<std::size_t>(m->products_per_step);
      for (std::size_t at = segment.begin; at < segment.end; at += step) {
        const auto from = s.order.begin() + static_cast<std::ptrdiff_t>(at);
        const auto to = s.order.begin() + static_cast<std::ptrdiff_t>(std::min(at + step, segment.end));
        if (std::any_of(from, to, [](std::int32_t k) { return k >= 0; }))
          chains.back().insert(chains.back().end(), from, to);
      }
    }
    if (plan.join == narrow::Join::reversed) std::reverse(chains.begin(), chains.end());
    return std::pair{chains, plan.operands};
  };
  return schedule(x) == schedule(y);
}

}  // namespace

TEST_CASE("golden: the algorithm's numbers foretell the plan of nearly every recorded product") {
  std::size_t right = 0, total = 0, streams = 0;
  for (const RecordedProduct& r : recorded()) {
    if (r.model == "software.fma") continue;
    const PlanPrediction p = narrow::plan_of_algorithm(narrow::find_product_type(r.type), r.shape, r.algorithm);
    const bool same = p.model == r.model && same_chains(p.plan, r.plan, r);
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
