// A model that must be there.
#pragma once

#include <doctest/doctest.h>

#include "narrow/dot/model.hpp"

inline const narrow::DotModel& model(const std::string& name) {
  const narrow::DotModel* m = narrow::find_dot_model(name);
  REQUIRE_MESSAGE(m != nullptr, name);
  return *m;
}
