// The folder that narrow.torch.watch writes while a model trains: each tensor of each watched step, counted; the loss
// and the loss scale of every step. A run may still be going on, or have been killed: a last line without its end is
// left out, and whatever else is wrong is an Error with the file and the line. Of a run that has ended gzip may have
// packed the logs (tensors.jsonl.gz), and a line may hold a whole step (watched_record.hpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "narrow/array/histogram.hpp"
#include "narrow/scale/scale_log.hpp"

namespace narrow {

// What a format made of the values, counted while they were there.
struct WatchedCounts {
  std::uint64_t underflow = 0, subnormal = 0, overflow = 0;
  double mse = 0, sqnr_db = 0;  // NaN where undefined
};

// One tensor at one step. The values are as they were in memory: where a loss scaler multiplied them, by `scale`, which
// may have become 0 or Inf.
struct WatchedTensor {
  std::int64_t step = 0;
  std::string role = {}, name = {}, dtype = {};
  std::size_t occurrence = 1;  // of this role and name in this step: a module may be called twice
  std::uint64_t count = 0;
  bool has_signs = true;  // else all counts are under `positive`
  SignCounts zero = {}, subnormal = {}, inf = {}, nan = {};
  int first = 0;
  std::vector<SignCounts> binades = {};  // of first, first + 1, ..
  double amax = 0, min_nonzero = 0;      // of the finite values; 0 where there is none
  bool has_extremes = true;              // else these are the ends of the outermost binades
  double scale = 1;
  std::vector<WatchedCounts> formats = {};  // in the order of WatchedRun::formats

  std::string series() const;  // "gradient/h.0.mlp.weight", at every step; the second of a step ends in "#2"
  std::string label() const;   // "gradient/h.0.mlp.weight@50"
  bool is_gradient() const { return role == "gradient" || role == "activation_gradient"; }
  std::uint64_t finite() const { return count - inf.total() - nan.total(); }
  double unscaled(double x) const;  // one of its values; NaN where the scale has become 0 or Inf
  ExponentHistogram histogram() const;
};

// In the order in which they are shown.
inline constexpr std::string_view watched_roles[] = {
    "gradient", "activation_gradient", "activation", "parameter", "update", "score"};

struct WatchedFormat {
  std::string name;
  Format format;
};

struct WatchedLoss {
  std::int64_t step = 0;
  double loss = 0;  // Inf and NaN where it was
};

bool is_watched_run(const std::string& path);  // a folder with a run.json that says so

class WatchedRun {
 public:
  explicit WatchedRun(const std::string& folder);  // reads run.json

  const std::string& folder() const { return folder_; }
  const std::string& model() const { return model_; }  // "" where it does not say
  const std::vector<WatchedFormat>& formats() const { return formats_; }
  const WatchedFormat* find(std::string_view format) const;  // nullptr when it was not watched

  // In the order of the file, in which steps ascend; one record is in memory at a time.
  void for_each_tensor(const std::function<void(WatchedTensor&)>& each) const;
  // Of its loss scaler, up to where the scale became 0 or Inf; without one, the largest of all gradients of each
  // watched step. Empty where there is neither.
  std::optional<ScaleLog> scale_log() const;
  bool has_scaler() const;
  std::vector<WatchedLoss> losses() const;  // by step; none where none was logged

 private:
  std::string path(const char* file) const;  // or what gzip made of it
  std::optional<ScaleLog> log_of_scaler() const;

  std::string folder_, model_;
  std::vector<WatchedFormat> formats_;
};

// The last step that is all there. A run that was killed ends within one: a last step with fewer tensors than the one
// before it is passed over.
class LastStep {
 public:
  void add(const WatchedTensor& tensor);
  const std::vector<WatchedTensor>& tensors() const { return is_cut() ? before_ : last_; }  // none: an empty run
  bool is_cut() const { return last_.size() < before_.size(); }

 private:
  std::vector<WatchedTensor> before_, last_;
};

}  // namespace narrow
