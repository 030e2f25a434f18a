// Which part of the learning rate a step takes: warmup, then decay; and what is counted when the loss scaler skips
// steps.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace narrow::train {

enum class ScheduleKind : std::uint8_t { constant, linear, cosine };  // after the warmup
inline constexpr std::array<std::string_view, 3> schedule_names = {"constant", "linear", "cosine"};

// calls: scheduler.step() in every iteration, also after an optimiser step that was skipped, so that the skipped ones
// use up the schedule. steps: only those that were taken.
enum class ScheduleCounts : std::uint8_t { steps, calls };
inline constexpr std::array<std::string_view, 2> schedule_count_names = {"steps", "calls"};

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  std::uint64_t warmup = 0;  // the rate rises by equal parts over so many: 1/warmup, 2/warmup, .. 1
  ScheduleCounts counts = ScheduleCounts::steps;
  std::uint64_t length = 0;  // warmup and decay; a constant rate has none
};
// Throws Error when the warmup leaves nothing to decay.
void check(const Schedule& schedule);

// Factor of the learning rate at this count, from 0. The same bits on every machine.
double rate_factor(const Schedule& schedule, std::uint64_t count) noexcept;

}  // namespace narrow::train
