// Would a step have overflowed at another loss scale? What a log of gradients says about it, and how sure that is.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace narrow {

// One entry a step. amax: largest unscaled gradient. found_inf: what the recorded run found, at `scale` where that is
// known. A vector is empty when the log has no such column.
struct GradientLog {
  std::vector<std::int64_t> steps;
  std::vector<float> amax;
  std::vector<std::uint8_t> found_inf;
  std::vector<float> scale;
};

// How found_inf is known for a scale that was not the recorded one.
enum class OverflowBasis : std::uint8_t {
  amax,            // exactly: FP16(amax * scale) is Inf, or amax is not finite
  recorded_scale,  // exactly where it follows from the step itself (an overflow stays one at larger scales, a good step
                   // at smaller ones); in between by the nearest steps that show the other
  recorded_only    // the recorded found_inf, whatever the scale: exact for the policy that recorded it only
};
std::string_view describe(OverflowBasis basis);

class OverflowModel {
 public:
  explicit OverflowModel(GradientLog log);  // throws Error when there is neither amax nor found_inf, or sizes differ

  struct Answer {
    bool found_inf;
    bool is_estimate;
  };
  Answer at(std::size_t step, float scale) const;
  std::size_t steps() const { return log_.steps.size(); }
  const GradientLog& log() const { return log_; }
  OverflowBasis basis() const { return basis_; }

 private:
  void bracket_run(std::size_t begin, std::size_t end);

  GradientLog log_;
  OverflowBasis basis_;
  // recorded_scale: scales up to good_up_to are believed to pass, from overflow_from on to overflow.
  std::vector<float> good_up_to_, overflow_from_;
};

}  // namespace narrow
