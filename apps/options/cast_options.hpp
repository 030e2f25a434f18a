// The flags that say how bits are lost, for every subcommand that casts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "narrow/format/format.hpp"
#include "narrow/round/cast.hpp"

namespace app {

struct CastOptions {
  std::optional<std::string> system, rounding, overflow, subnormals, random, random_bits;

  void declare(Arguments& arguments);             // for single values: --random is the random word itself
  void declare_for_arrays(Arguments& arguments);  // for tensors: --seed, each element draws by its index

  bool is_plain() const { return !system && !rounding && !overflow && !subnormals; }
  void check() const;                                        // every word but those that depend on the format
  narrow::Cast cast_to(const narrow::Format& format) const;  // these throw narrow::Error
  std::uint64_t random_value() const;
  std::string describe() const;  // "cast torch, saturate"; empty for the plain cast

 private:
  void declare_rules(Arguments& arguments);
  const char* random_flag_ = "--random";
};

}  // namespace app
