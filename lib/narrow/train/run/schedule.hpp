// Which part of the learning rate a step takes: warmup, then decay; and what is counted when the loss scaler skips
// steps.
#pragma once

#include <cstdint>

#include "narrow/train/policy/settings.hpp"

namespace narrow::train {

// Throws Error when the warmup leaves nothing to decay.
void check(const Schedule& schedule);

// Factor of the learning rate at this count, from 0. The same bits on every machine.
double rate_factor(const Schedule& schedule, std::uint64_t count) noexcept;

}  // namespace narrow::train
