// Short training runs for the tests, and what is compared of them: bits.
#pragma once

#include <cstring>

#include "narrow/train/run/trainer.hpp"

namespace test {

inline narrow::train::RunRequest digits_request(const std::string& recipe, std::uint64_t steps = 10) {
  narrow::train::RunRequest request;
  request.recipe = narrow::train::require_recipe(recipe);
  request.steps = steps;
  return request;
}

inline narrow::train::RunRequest cnn_request(const std::string& recipe, std::uint64_t steps = 5) {
  narrow::train::RunRequest request = digits_request(recipe, steps);
  request.shape = narrow::train::settings_of(request.task, "cnn").shape;
  request.batch = 16;
  return request;
}

// A transformer that takes milliseconds.
inline narrow::train::RunRequest small_lm_request(const std::string& recipe, std::uint64_t steps = 5) {
  narrow::train::RunRequest request = digits_request(recipe, steps);
  request.task = narrow::train::Task::lm;
  request.shape = narrow::train::settings_of(request.task).shape;
  request.shape->layers = 1;
  request.shape->width = 32;
  request.shape->heads = 2;
  request.shape->context = 32;
  request.batch = 4;
  return request;
}

inline void take_steps(narrow::train::Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) trainer.step();
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Parameters, moments, memory of the scales and rows, bit for bit.
inline bool same_state(const narrow::train::TrainingState& a, const narrow::train::TrainingState& b) {
  bool same = a.parameters.size() == b.parameters.size() && a.layers.size() == b.layers.size() &&
              a.rows.size() == b.rows.size() && a.optimiser_steps == b.optimiser_steps;
  for (std::size_t k = 0; same && k < a.parameters.size(); ++k)
    same = same_bits(a.parameters[k], b.parameters[k]) && same_bits(a.moments[k].first, b.moments[k].first) &&
           same_bits(a.moments[k].second, b.moments[k].second) &&
           same_bits(a.moments[k].compensation, b.moments[k].compensation);
  for (std::size_t k = 0; same && k < a.layers.size(); ++k) same = same_bits(a.layers[k].values, b.layers[k].values);
  for (std::size_t i = 0; same && i < a.rows.size(); ++i) {
    const narrow::train::StepRow &x = a.rows[i], &y = b.rows[i];
    same =
        same_bits<double>({x.loss, x.gradient_norm, x.update_ratio, x.learning_rate, x.clipped_norm, x.clip_factor},
                          {y.loss, y.gradient_norm, y.update_ratio, y.learning_rate, y.clipped_norm, y.clip_factor}) &&
        x.scale == y.scale && x.skipped == y.skipped;
  }
  return same;
}

}  // namespace test
