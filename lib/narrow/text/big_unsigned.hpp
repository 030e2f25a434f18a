// Unsigned integers of any length: just the operations that exact reading and printing of numbers need.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "narrow/base/bits.hpp"

namespace narrow {

class BigUnsigned {
 public:
  BigUnsigned() = default;
  explicit BigUnsigned(std::uint64_t value);

  bool is_zero() const noexcept { return limbs_.empty(); }
  int bit_length() const noexcept;  // floor(log2) + 1, and 0 for 0

  BigUnsigned& multiply_add(std::uint32_t factor, std::uint32_t addend);
  BigUnsigned& multiply_by_power_of_five(int n);
  BigUnsigned& operator<<=(int n);
  BigUnsigned& operator+=(const BigUnsigned& other);
  BigUnsigned& operator-=(const BigUnsigned& other);     // other must not be larger
  std::uint32_t divide(std::uint32_t divisor) noexcept;  // leaves the quotient, returns the remainder

  U128 bits_from(int n) const noexcept;       // floor(x / 2^n) mod 2^128
  bool has_bits_below(int n) const noexcept;  // x mod 2^n != 0
  std::string to_digits() const;              // decimal, "0" for 0

  friend std::strong_ordering operator<=>(const BigUnsigned& a, const BigUnsigned& b) noexcept;
  friend bool operator==(const BigUnsigned&, const BigUnsigned&) = default;

 private:
  std::uint32_t limb(std::size_t i) const noexcept { return i < limbs_.size() ? limbs_[i] : 0; }
  void trim() noexcept;

  std::vector<std::uint32_t> limbs_;  // base 2^32, lowest first, the highest is never 0
};

}  // namespace narrow
