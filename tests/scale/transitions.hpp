// Tables of transitions worked out by hand: what a scaler sees in a step, and the state that must follow.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "narrow/scale/scaler.hpp"

namespace test {

// good and bad steps as letters: "ggb" is two good steps and an overflow.
template <class Definition>
typename Definition::State after(const Definition& scaler, const std::string& steps) {
  typename Definition::State state = initial(scaler);
  for (const char c : steps) state = next(scaler, state, narrow::Observation{c == 'b', 0});
  return state;
}

// The scale before each step and after the last.
template <class Definition>
std::vector<double> scales(const Definition& scaler, const std::string& steps) {
  typename Definition::State state = initial(scaler);
  std::vector<double> list = {static_cast<double>(scale(state))};
  for (const char c : steps) {
    state = next(scaler, state, narrow::Observation{c == 'b', 0});
    list.push_back(static_cast<double>(scale(state)));
  }
  return list;
}

inline std::string repeat(const std::string& word, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += word;
  return text;
}

}  // namespace test
