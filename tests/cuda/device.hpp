// Whether there is a GPU; the tests that need one say so and pass where there is none.
#pragma once

#include <doctest/doctest.h>

#include "narrow/base/error.hpp"
#include "narrow/cuda/device.hpp"

namespace test {

inline bool has_device() {
  try {
    narrow::open_device();
    return true;
  } catch (const narrow::Error& error) {
    MESSAGE("skipped: " << error.what());
    return false;
  }
}

}  // namespace test
