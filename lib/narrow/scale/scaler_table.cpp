#include "narrow/scale/scaler_table.hpp"

#include <utility>

#include "narrow/base/error.hpp"
#include "narrow/base/float_environment.hpp"
#include "narrow/scale/apex_scaler.hpp"
#include "narrow/scale/deepspeed_scaler.hpp"
#include "narrow/scale/delayed_scaling.hpp"
#include "narrow/scale/fairseq_scaler.hpp"
#include "narrow/scale/fixed_scale.hpp"
#include "narrow/scale/keras_scaler.hpp"
#include "narrow/scale/megatron_scaler.hpp"
#include "narrow/scale/tensor_scale.hpp"
#include "narrow/scale/torch_scaler.hpp"
#include "narrow/text/quote.hpp"
#include "narrow/text/text.hpp"

namespace narrow {

namespace {

template <ScalerDefinition P>
class DefinedScaler final : public Scaler {
 public:
  explicit DefinedScaler(const P& scaler) : definition_(scaler), state_(initial(scaler)) {}
  float scale() const override { return narrow::scale(state_); }
  void observe(const Observation& seen) override {
    const DefaultFloats guard;
    state_ = next(definition_, std::move(state_), seen);
  }
  ScaleEvent event() const override { return state_.event; }
  std::string state_text() const override { return to_text(state_); }
  bool skips_on_inf() const override { return P::skips_on_inf; }
  bool is_immediate() const override {
    if constexpr (requires { P::is_immediate; }) return P::is_immediate;
    return false;
  }
  float limit() const override {
    if constexpr (requires { narrow::limit(definition_); }) return narrow::limit(definition_);
    return 0;
  }
  std::unique_ptr<Scaler> clone() const override { return std::make_unique<DefinedScaler>(*this); }

 private:
  P definition_;
  typename P::State state_;
};

template <class P>
void set(P& scaler, const Parameter<P>& parameter, double value) {
  const auto refuse = [&](std::string_view accepted) {
    throw Error(std::string(P::name) + ": " + std::string(parameter.name) + " is " + detail::scale_text(value) +
                "; accepted: " + std::string(accepted));
  };
  if (!is_allowed(value, parameter.kind)) refuse(describe(parameter.kind));
  std::visit(
      [&](auto member) {
        using Member = std::remove_reference_t<decltype(scaler.*member)>;
        if constexpr (std::is_same_v<Member, std::int64_t>)
          if (value != std::floor(value) || value > 1e15) refuse("an integer");
        scaler.*member = static_cast<Member>(value);
      },
      parameter.member);
}

template <ScalerDefinition P>
std::unique_ptr<Scaler> make(std::span<const ParameterValue> values) {
  P scaler;
  for (const ParameterValue& value : values)
    for (const Parameter<P>& parameter : P::parameters())
      if (parameter.name == value.name) set(scaler, parameter, value.value);
  check(scaler);
  return std::make_unique<DefinedScaler<P>>(scaler);
}

template <ScalerDefinition P>
ScalerRow row() {
  ScalerRow r{P::name, P::what, P::source, P::kind, {}, make<P>};
  [[maybe_unused]] static constexpr P scaler{};
  for (const Parameter<P>& parameter : P::parameters()) {
    const double value = std::visit([&](auto member) { return static_cast<double>(scaler.*member); }, parameter.member);
    r.parameters.push_back({parameter.name, value, parameter.kind, parameter.what});
  }
  return r;
}

}  // namespace

std::span<const ScalerRow> scaler_table() {
  static const std::vector<ScalerRow> table = {
      row<NoScale>(),          row<ConstantScale>(),    row<TorchScaler>(),    row<MegatronScaler>(),
      row<DeepSpeedScaler>(),  row<ApexScaler>(),       row<FairseqScaler>(),  row<KerasScaler>(),
      row<TeDelayedScaling>(), row<TeCurrentScaling>(), row<TorchaoScaling>(), row<TeBlockScaling>(),
      row<DeepGemmScaling>(),
  };
  return table;
}

const ParameterRow* ScalerRow::find(std::string_view parameter) const {
  for (const ParameterRow& p : parameters)
    if (p.name == parameter) return &p;
  return nullptr;
}

const ScalerRow* find_scaler(std::string_view name) {
  for (const ScalerRow& r : scaler_table())
    if (detail::same_word(r.name, name)) return &r;
  return nullptr;
}

bool is_allowed(double x, ParameterKind kind) {
  constexpr double largest_count = 1e15;  // a double still holds every integer
  switch (kind) {
    case ParameterKind::scale:
    case ParameterKind::limit: return x > 0 && detail::to_float(x) > 0 && std::isfinite(detail::to_float(x));
    case ParameterKind::growth: return x > 1 && std::isfinite(detail::to_float(x));
    case ParameterKind::backoff: return x > 0 && x < 1;
    case ParameterKind::count: return x >= 1 && x <= largest_count && x == std::floor(x);
    case ParameterKind::magnitude: return x >= 0 && std::isfinite(x);
    case ParameterKind::flag: return x == 0 || x == 1;
  }
  return false;
}

std::string_view describe(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::scale:
    case ParameterKind::limit: return "a positive finite number (65536 or 2^16)";
    case ParameterKind::growth: return "a number above 1";
    case ParameterKind::backoff: return "a number above 0 and below 1";
    case ParameterKind::count: return "an integer of at least 1";
    case ParameterKind::magnitude: return "a number of at least 0";
    case ParameterKind::flag: return "0 or 1";
  }
  return "";
}

double parse_scale_number(std::string_view text) {
  const auto number = [](std::string_view digits) {
    constexpr Format fp64 = "fp64"_fmt;
    return decode(parse_value(digits, fp64), fp64);
  };
  const std::size_t power = text.find('^');
  if (power == std::string_view::npos) return number(text);
  const double base = number(text.substr(0, power)), exponent = number(text.substr(power + 1));
  if (base != 2 || exponent != std::floor(exponent) || std::abs(exponent) > 1000)
    throw Error(quote(text) + " is no number; accepted: 65536, 2^16, 0.5, 0x1p16");
  return std::ldexp(1.0, static_cast<int>(exponent));
}

namespace {

[[noreturn]] void refuse_word(std::string_view what, std::string_view word,
                              const std::vector<std::string_view>& accepted) {
  std::string message = std::string(what) + " " + quote(word) + " is unknown; ";
  message += hint(word, accepted);
  message += "accepted:";
  for (const std::string_view name : accepted) message += " " + std::string(name);
  throw Error(message);
}

// "init=2^24" of the scaler's own parameters.
ParameterValue parse_assignment(const ScalerRow& row, std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (row.find(name) == nullptr) {
    std::vector<std::string_view> accepted;
    for (const ParameterRow& p : row.parameters) accepted.push_back(p.name);
    refuse_word(std::string(row.name) + ": parameter", name, accepted);
  }
  if (equals == std::string_view::npos)
    throw Error(std::string(row.name) + ": parameter " + quote(name) + " has no value; write " + std::string(name) +
                "=VALUE");
  try {
    return {std::string(name), parse_scale_number(word.substr(equals + 1))};
  } catch (const Error& error) {
    throw Error(std::string(row.name) + ": " + std::string(name) + ": " + error.what());
  }
}

}  // namespace

NamedScaler make_scaler(std::string_view text, std::span<const ParameterValue> common) {
  const std::string_view name = text.substr(0, text.find(':'));
  const ScalerRow* row = find_scaler(name);
  if (row == nullptr) {
    std::vector<std::string_view> accepted;
    for (const ScalerRow& r : scaler_table()) accepted.push_back(r.name);
    refuse_word("policy", name, accepted);
  }
  std::vector<ParameterValue> values(common.begin(), common.end());
  for (std::string_view rest = text; rest.find(':') != std::string_view::npos;) {
    rest.remove_prefix(rest.find(':') + 1);
    values.push_back(parse_assignment(*row, rest.substr(0, rest.find(':'))));
  }
  return {std::string(text), row, row->make(values)};
}

}  // namespace narrow
