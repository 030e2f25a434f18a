// Plans as text, and the chains that they mean.
#include "narrow/dot/plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "support/contains.hpp"

using narrow::DotModel;
using narrow::Plan;
using narrow::Schedule;

namespace {

const char* const texts[] = {"chain",
                             "chain,rne",
                             "chain,rna",
                             "promote:128",
                             "promote:512,rne",
                             "split:1408",
                             "split:192,rne",
                             "split:64,pairwise",
                             "split:64,reversed",
                             "split:64,output",
                             "split:64,pairwise,output,rna",
                             "split:64,halving",
                             "split:152,stored,c=after",
                             "split:1080,serial,c=first",
                             "chain,c=last",
                             "blocks:128,run=2",
                             "slice:32,halving,run=1",
                             "slice:4",
                             "slice:3,run=8",
                             "slice:4,pairwise,run=32",
                             "even:3",
                             "even:3,reversed,rne,run=32",
                             "even:7,pairwise,run=8",
                             "streamk:132",
                             "streamk:7,tile=64x32x16",
                             "streamk:1",
                             "split:1",
                             "split:1073741824"};
const char* const models[] = {"hopper.mma.f32.f16.f16.k16",   "hopper.wgmma.f32.e4m3.e4m3",
                              "hopper.mma.f32.e4m3.e4m3.k32", "ampere.mma.f32.tf32.tf32.k8",
                              "ampere.mma.f64.f64.f64.k4",    "software.pairwise.f32.f16.f16",
                              "cdna3.mfma.f32.f16.f16.k16",   "blackwell.tcgen05.f32.e2m1.e2m1.nvf4"};
const std::size_t lengths[] = {0, 1, 7, 15, 16, 17, 63, 64, 100, 128, 129, 192, 1000, 4096};

const DotModel& model(const char* name) {
  const DotModel* m = narrow::find_dot_model(name);
  REQUIRE_MESSAGE(m != nullptr, name);
  return *m;
}

}  // namespace

TEST_CASE("plan: texts are read and written alike") {
  std::vector<const char*> all(std::begin(texts), std::end(texts));
  all.insert(all.end(), {"chain,residue=64,c=after", "split:152,stored,residue=128,c=after"});
  for (const char* text : all) {
    CAPTURE(text);
    const Plan plan = narrow::parse_plan(text);
    CHECK(narrow::plan_text(plan) == text);
    CHECK(narrow::parse_plan(narrow::plan_text(plan)) == plan);
  }
  CHECK(narrow::parse_plan("chain") == Plan{});
  CHECK(narrow::parse_plan("split:1408").length == 1408);
  CHECK(narrow::parse_plan("split:64,rne,pairwise") == narrow::parse_plan("split:64,pairwise,rne"));
  const Plan tile = narrow::parse_plan("streamk:7,tile=64x32x16");
  CHECK(tile.tile_rows == 64);
  CHECK(tile.tile_cols == 32);
  CHECK(tile.tile_k == 16);
  CHECK(tile.length == 7);
}

TEST_CASE("plan: a text that is no plan throws one line that says what a plan is") {
  const std::string bad[] = {"",
                             "chains",
                             "chain:1",
                             "chain,",
                             ",chain",
                             "chain,,rne",
                             "promote",
                             "promote:",
                             "promote:0",
                             "promote:-1",
                             "promote:1x",
                             "promote: 128",
                             "split:99999999999999999999",
                             "split:1073741825",
                             "split:128,",
                             "split:128,fast",
                             "split:128,tile=1x1x1",
                             "slice:4,run=",
                             "slice:4,run=0",
                             "even:0",
                             "even:3,tile=1x1x1",
                             "streamk:0",
                             "streamk:4,tile=128x128",
                             "streamk:4,tile=128x128x0",
                             "streamk:4,tile=1x1x1x1",
                             "streamk:4,tile=axbxc",
                             "chain,pairwise",
                             "CHAIN",
                             "split:128\n",
                             std::string("split:1\0", 8),
                             "promote:128,pairwise",
                             std::string(10000, 'x')};
  for (const std::string& text : bad) {
    CAPTURE(text);
    const std::string words = test::error_of([&] { (void)narrow::parse_plan(text); });
    CHECK(!contains(words, "\n"));
    CHECK(contains(words, "promote:128"));
    CHECK(words.size() < 20000);
  }
}

TEST_CASE("plan: every k stands in exactly one chain, chains ascend, and only -1 fills up") {
  for (const char* text : texts)
    for (const char* name : models)
      for (const std::size_t k : lengths)
        for (const std::size_t row : {std::size_t{0}, std::size_t{200}}) {
          CAPTURE(text);
          CAPTURE(name);
          CAPTURE(k);
          CAPTURE(row);
          const Plan plan = narrow::parse_plan(text);
          if (plan.length > static_cast<int>(4 * k + 4) && plan.order == narrow::SumOrder::slice) continue;
          const Schedule s = narrow::make_schedule(plan, model(name), k, 300, 300, row, 299);
          std::vector<int> seen(k, 0);
          std::size_t at = 0;
          bool ascending = true, padded_inside = false;
          REQUIRE(!s.segments.empty());
          for (const narrow::Segment& segment : s.segments) {
            CHECK(segment.begin == at);
            REQUIRE(segment.end >= segment.begin);
            REQUIRE(segment.end <= s.order.size());
            at = segment.end;
            std::int32_t last = -1;
            bool filling = false;
            for (std::size_t i = segment.begin; i < segment.end; ++i) {
              const std::int32_t x = s.order[i];
              if (x < 0) {
                filling = true;
                continue;
              }
              padded_inside = padded_inside || filling;
              ascending = ascending && x > last;
              last = x;
              REQUIRE(static_cast<std::size_t>(x) < k);
              ++seen[static_cast<std::size_t>(x)];
            }
          }
          CHECK(at == s.order.size());
          CHECK(ascending);
          CHECK(!padded_inside);
          CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
        }
}

TEST_CASE("plan: chains of fused models end with a whole step") {
  for (const char* text : {"chain", "split:100", "promote:128", "slice:3", "streamk:5,tile=128x128x48"})
    for (const std::size_t k : {std::size_t{1}, std::size_t{100}, std::size_t{777}}) {
      const DotModel &fused = model("hopper.mma.f32.f16.f16.k16"), &pair = model("hopper.mma.f32.e4m3.e4m3.k32");
      for (const narrow::Segment& s : narrow::make_schedule(narrow::parse_plan(text), fused, k, 128, 128).segments)
        CHECK((s.end - s.begin) % 16 == 0);
      for (const narrow::Segment& s : narrow::make_schedule(narrow::parse_plan(text), pair, k, 128, 128).segments)
        CHECK((s.end - s.begin) % 32 == 0);
    }
}

TEST_CASE("plan: the chains of each order") {
  const DotModel& m = model("hopper.mma.f32.f16.f16.k16");
  const auto firsts = [&](const char* text, std::size_t k, std::size_t row = 0, std::size_t col = 0) {
    const Schedule s = narrow::make_schedule(narrow::parse_plan(text), m, k, 256, 256, row, col);
    std::vector<std::int32_t> first;
    for (const narrow::Segment& segment : s.segments)
      first.push_back(segment.begin < segment.end ? s.order[segment.begin] : -1);
    return first;
  };
  using List = std::vector<std::int32_t>;
  CHECK(firsts("chain", 4096) == List{0});
  CHECK(firsts("split:1408", 4096) == List{0, 1408, 2816});
  CHECK(firsts("split:1408", 1408) == List{0});
  CHECK(firsts("split:1408", 1409) == List{0, 1408});
  CHECK(firsts("promote:128", 300) == List{0, 128, 256});
  CHECK(firsts("slice:3", 64) == List{0, 16, 32});
  CHECK(firsts("slice:3,run=8", 64) == List{0, 8, 16});
  // 512 runs of 32: cuBLASLt's tf32 kernel for 512 x 512 x 16384 on an H200, found by probing it.
  CHECK(firsts("even:3,reversed,run=32", 16384) == List{0, 170 * 32, 341 * 32});
  CHECK(firsts("even:3,run=32", 16384) == List{0, 171 * 32, 342 * 32});
  CHECK(firsts("even:3", 20) == List{0, 16});
  // Four tiles of 128 x 128, 16 steps of 64 each: 64 steps over 5 workers are 13, 13, 13, 13, 12.
  CHECK(firsts("streamk:5", 1024) == List{0, 13 * 64});
  CHECK(firsts("streamk:5", 1024, 0, 128) == List{0, (26 - 16) * 64});
  CHECK(firsts("streamk:5", 1024, 128, 0) == List{0, (39 - 32) * 64});
  CHECK(firsts("streamk:5", 1024, 255, 255) == List{0, (52 - 48) * 64});
  CHECK(firsts("streamk:4", 1024, 255, 0) == List{0});

  const Schedule slices = narrow::make_schedule(narrow::parse_plan("slice:2,run=16"), m, 64, 1, 1);
  List expected;
  for (const int begin : {0, 32, 16, 48})
    for (int i = 0; i < 16; ++i) expected.push_back(begin + i);
  CHECK(slices.order == expected);
}

TEST_CASE("plan: stream-K cuts all tiles as the workers' shares say") {
  const DotModel& m = model("hopper.mma.f32.f16.f16.k16");
  for (const int workers : {1, 2, 3, 5, 8, 13, 31, 132, 1000}) {
    Plan plan = narrow::parse_plan("streamk:1,tile=32x16x32");
    plan.length = workers;
    const std::size_t rows = 96, cols = 40, k = 32 * 11, tiles = 9, steps = 11;
    // Worker w starts at step w * share + min(w, rest) of all tiles.
    std::set<std::size_t> starts;
    const std::size_t share = tiles * steps / static_cast<std::size_t>(workers),
                      rest = tiles * steps % static_cast<std::size_t>(workers);
    for (std::size_t w = 0; w < static_cast<std::size_t>(workers); ++w) starts.insert(w * share + std::min(w, rest));
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      const Schedule s = narrow::make_schedule(plan, m, k, rows, cols, tile / 3 * 32 + 5, tile % 3 * 16 + 3);
      std::vector<std::int32_t> want, got;
      for (std::size_t step = 0; step < steps; ++step)
        if (step == 0 || starts.contains(tile * steps + step)) want.push_back(static_cast<std::int32_t>(step * 32));
      for (const narrow::Segment& segment : s.segments) got.push_back(s.order[segment.begin]);
      CAPTURE(workers);
      CAPTURE(tile);
      CHECK(got == want);
    }
  }
}
