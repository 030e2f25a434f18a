// Products through torch on an H200: the model and plan that validate named give every bit of them again.
#include "cuda/golden_folder.hpp"
#include "narrow/base/error.hpp"
#include "narrow/dot/model.hpp"
#include "narrow/golden/torch_products.hpp"
#include "support/contains.hpp"
#include "support/scale.hpp"

TEST_CASE("golden: what validate named of torch's products gives them again") {
  const auto all = narrow::read_torch_products(test::read_text(NARROW_DATA "/golden/torch-products.tsv"));
  REQUIRE(all.size() >= 300);
  // As many as a few seconds hold, of every type and entry.
  double left = 4e8 * test::scale();
  std::size_t replayed = 0;
  for (std::size_t n = 0; n < all.size() && left > 0; ++n) {
    const narrow::RecordedTorchProduct& r = all[n * 37 % all.size()];
    if (r.model.empty() || r.products() > 2e7 || narrow::find_dot_model(r.model)->is_integer() != (r.type == "s8"))
      continue;
    left -= r.products(), ++replayed;
    CAPTURE(r.type);
    CAPTURE(r.function);
    CAPTURE(r.shape.m);
    CAPTURE(r.shape.n);
    CAPTURE(r.shape.k);
    CAPTURE(r.model);
    CAPTURE(r.plan);
    CHECK(narrow::torch_product_hash(r, r.model, r.plan) == r.hash);
  }
  MESSAGE(replayed << " of " << all.size() << " products replayed");
  CHECK(replayed > 30 * test::scale());
}

TEST_CASE("golden: a broken table of products through torch is refused by line") {
  const std::string names = "# gpu\ntype\tapi\tm\tn\tk\tseed\texact\tmodel\tplan\tequal\ttotal\thash\tblas\tkernel\n";
  const std::string line = "f16\tbmm\t2\t3\t4\t7\t1\tmodel\tchain\t12\t12\tFF\tcublaslt\tk\n";
  const auto read = narrow::read_torch_products(names + line);
  REQUIRE(read.size() == 1);
  CHECK(read[0].batch == 2);
  CHECK(read[0].hash == 255);
  CHECK(read[0].library == "cublaslt");
  for (const std::string& broken : {std::string("f16\tbmm\n"), "f16\tbmm\tx" + line.substr(line.find("\t3")),
                                    "f16\tbmm\t0" + line.substr(line.find("\t3"))})
    CHECK(contains(test::error_of([&] { (void)narrow::read_torch_products(names + broken); }), "line 3"));
  CHECK(contains(test::error_of([&] { (void)narrow::read_torch_products("a\tb\n"); }), "no column 'type'"));
}
