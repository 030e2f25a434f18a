#include "narrow/text/big_unsigned.hpp"
#include "narrow/text/exact_number.hpp"

#include <algorithm>
#include <cassert>

namespace narrow {

BigUnsigned::BigUnsigned(std::uint64_t value) {
  limbs_ = {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
  trim();
}

void BigUnsigned::trim() noexcept {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
}

int BigUnsigned::bit_length() const noexcept {
  if (limbs_.empty()) return 0;
  return static_cast<int>(32 * (limbs_.size() - 1)) + narrow::bit_length(std::uint64_t{limbs_.back()});
}

BigUnsigned& BigUnsigned::multiply_add(std::uint32_t factor, std::uint32_t addend) {
  std::uint64_t carry = addend;  // (2^32 - 1)^2 + (2^32 - 1) < 2^64: no step overflows
  for (std::uint32_t& limb : limbs_) {
    carry += std::uint64_t{limb} * factor;
    limb = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) limbs_.push_back(static_cast<std::uint32_t>(carry));
  trim();
  return *this;
}

BigUnsigned& BigUnsigned::multiply_by_power_of_five(int n) {
  constexpr std::uint32_t five_to_13 = 1220703125;  // the largest power of five below 2^32
  for (; n >= 13; n -= 13) multiply_add(five_to_13, 0);
  for (; n > 0; --n) multiply_add(5, 0);
  return *this;
}

BigUnsigned& BigUnsigned::operator<<=(int n) {
  if (limbs_.empty() || n == 0) return *this;
  if (n % 32 != 0) multiply_add(1u << (n % 32), 0);
  limbs_.insert(limbs_.begin(), static_cast<std::size_t>(n / 32), 0u);
  return *this;
}

BigUnsigned& BigUnsigned::operator+=(const BigUnsigned& other) {
  limbs_.resize(std::max(limbs_.size(), other.limbs_.size()) + 1);
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    carry += std::uint64_t{limbs_[i]} + other.limb(i);
    limbs_[i] = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  trim();
  return *this;
}

BigUnsigned& BigUnsigned::operator-=(const BigUnsigned& other) {
  assert(*this >= other);
  std::uint64_t borrow = 0;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    const std::uint64_t difference = std::uint64_t{limbs_[i]} - other.limb(i) - borrow;
    limbs_[i] = static_cast<std::uint32_t>(difference);
    borrow = difference >> 63;
  }
  trim();
  return *this;
}

std::uint32_t BigUnsigned::divide(std::uint32_t divisor) noexcept {
  std::uint64_t remainder = 0;
  for (std::size_t i = limbs_.size(); i-- > 0;) {
    const std::uint64_t current = remainder << 32 | limbs_[i];
    limbs_[i] = static_cast<std::uint32_t>(current / divisor);
    remainder = current % divisor;
  }
  trim();
  return static_cast<std::uint32_t>(remainder);
}

U128 BigUnsigned::bits_from(int n) const noexcept {
  const auto first = static_cast<std::size_t>(n / 32);
  U128 bits = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t two_limbs = std::uint64_t{limb(first + i + 1)} << 32 | limb(first + i);
    bits |= U128{static_cast<std::uint32_t>(two_limbs >> (n % 32))} << (32 * i);
  }
  return bits;
}

bool BigUnsigned::has_bits_below(int n) const noexcept {
  const auto whole = std::min(static_cast<std::size_t>(n / 32), limbs_.size());
  for (std::size_t i = 0; i < whole; ++i)
    if (limbs_[i] != 0) return true;
  return (limb(static_cast<std::size_t>(n / 32)) & low_mask(n % 32)) != 0;
}

std::string BigUnsigned::to_digits() const {
  if (is_zero()) return "0";
  std::string reversed;
  BigUnsigned rest = *this;
  while (!rest.is_zero()) {
    std::uint32_t nine_digits = rest.divide(1000000000);
    for (int i = 0; i < 9; ++i, nine_digits /= 10) reversed.push_back(static_cast<char>('0' + nine_digits % 10));
  }
  reversed.erase(reversed.find_last_not_of('0') + 1);
  return {reversed.rbegin(), reversed.rend()};
}

std::strong_ordering operator<=>(const BigUnsigned& a, const BigUnsigned& b) noexcept {
  if (a.limbs_.size() != b.limbs_.size()) return a.limbs_.size() <=> b.limbs_.size();
  for (std::size_t i = a.limbs_.size(); i-- > 0;)
    if (a.limbs_[i] != b.limbs_[i]) return a.limbs_[i] <=> b.limbs_[i];
  return std::strong_ordering::equal;
}

}  // namespace narrow
