// Every scaler by name: parameters with their defaults, source, and how to make one. Adding a scaler is one
// header, its test, and one row in scaler_table.cpp; the program, its lists and the tests over all scalers follow.
//
//   const NamedScaler torch = make_scaler("torch:init=2^10");
//   for (const ScalerRow& row : scaler_table()) std::printf("%.*s\n", int(row.name.size()), row.name.data());
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "narrow/scale/scaler.hpp"

namespace narrow {

// A scaler and its state behind one type.
class Scaler {
 public:
  virtual ~Scaler() = default;
  virtual float scale() const = 0;  // what the next step uses
  virtual void observe(const Observation& seen) = 0;
  virtual ScaleEvent event() const = 0;  // of the last observation
  virtual std::string state_text() const = 0;
  virtual bool skips_on_inf() const = 0;
  virtual bool is_immediate() const = 0;  // scale() after observe() is that of the observed step itself
  virtual float limit() const = 0;        // largest scaled magnitude of a tensor recipe; 0 for loss scalers
  virtual std::unique_ptr<Scaler> clone() const = 0;
};

// A parameter of a scaler.
struct ParameterRow {
  std::string_view name;
  double initial;  // the framework's default; 0 for a limit that is not there
  ParameterKind kind;
  std::string_view what;
};
// A parameter as it was given.
struct ParameterValue {
  std::string name;
  double value;
};

// A scaler by name.
struct ScalerRow {
  std::string_view name, what, source;
  ScalerKind kind;
  std::vector<ParameterRow> parameters;
  std::unique_ptr<Scaler> (*make)(std::span<const ParameterValue> values);  // throws Error

  const ParameterRow* find(std::string_view parameter) const;  // nullptr when it has none of that name
};

// All scalers.
std::span<const ScalerRow> scaler_table();
const ScalerRow* find_scaler(std::string_view name);  // nullptr when there is none

// "torch" or "torch:init=2^24:growth-interval=50". Values of `common` are taken where the scaler has such a parameter;
// those in the text come last. Throws Error: unknown scaler or parameter (with what is accepted), value out of range.
struct NamedScaler {
  std::string name;  // as asked, for headings
  const ScalerRow* row;
  std::unique_ptr<Scaler> scaler;
};
NamedScaler make_scaler(std::string_view text, std::span<const ParameterValue> common = {});

// "65536", "2^16", "0.5", "0x1p16": a number as flags take it. Throws Error.
double parse_scale_number(std::string_view text);

// What a parameter of this kind may be, and the same in words.
bool is_allowed(double value, ParameterKind kind);
std::string_view describe(ParameterKind kind);

}  // namespace narrow
