// Casts, statistics, histograms and block formats on arrays. Every function that computes lets other threads run.
#include <nanobind/stl/pair.h>

#include <charconv>

#include "bindings.hpp"
#include "narrow/array/array.hpp"
#include "narrow/scale/block_scale.hpp"
#include "narrow/scale/quantise.hpp"
#include "narrow/tensor/block_tensor.hpp"
#include "narrow/tensor/tensor_statistics.hpp"
#include "tensors/stats_rows.hpp"

namespace narrow::python {
namespace {

app::CastOptions cast_words(const Word& system, const Word& rounding, const Word& overflow, const Word& subnormals,
                            std::optional<int> random_bits) {
  app::CastOptions words;
  words.system = system, words.rounding = rounding, words.overflow = overflow, words.subnormals = subnormals;
  if (random_bits) words.random_bits = std::to_string(*random_bits);
  words.check();
  return words;
}

Plan make_plan(const std::string& format, const Word& system, const Word& rounding, const Word& overflow,
               const Word& subnormals, std::optional<int> random_bits) {
  Plan plan{app::choose_format(format), {}};
  plan.to = {plan.chosen.format,
             cast_words(system, rounding, overflow, subnormals, random_bits).cast_to(plan.chosen.format)};
  return plan;
}

// Whether memory order is the same walk through both: C order, or any order without gaps that both share, where the
// place of an element does not matter (stochastic rounding draws by the index in C order).
bool same_walk(const InArray& x, const OutArray& out, bool in_order) {
  if (x.size() == 0) return true;
  const auto begin = [](const auto& a) { return static_cast<const char*>(static_cast<const void*>(a.data())); };
  const auto aligned = [&](const auto& a) { return reinterpret_cast<std::uintptr_t>(a.data()) % a.itemsize() == 0; };
  if (!aligned(x) || !aligned(out)) return false;
  const bool apart = begin(x) + x.nbytes() <= begin(out) || begin(out) + out.nbytes() <= begin(x);
  if (!apart && !(begin(x) == begin(out) && x.itemsize() == out.itemsize())) return false;
  if (is_dense(x) && is_dense(out)) return true;
  if (in_order) return false;
  std::vector<std::pair<std::int64_t, std::size_t>> steps;
  for (std::size_t i = 0; i < x.ndim(); ++i) {
    if (x.shape(i) == 1) continue;
    if (x.stride(i) != out.stride(i)) return false;
    steps.emplace_back(x.stride(i), x.shape(i));
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t expected = 1;
  for (const auto& [stride, size] : steps) {
    if (stride != expected) return false;
    expected *= static_cast<std::int64_t>(size);
  }
  return true;
}

void check(const InArray& x, const OutArray& out) {
  bool same = x.ndim() == out.ndim();
  for (std::size_t i = 0; same && i < x.ndim(); ++i) same = x.shape(i) == out.shape(i);
  if (!same) throw Error("out: its shape is not that of the array");
}

template <class T>
std::span<const T> read(const InArray& a) {
  return {static_cast<const T*>(a.data()), a.size()};
}
template <class T>
std::span<T> write(const OutArray& a) {
  return {static_cast<T*>(a.data()), a.size()};
}

// Calls body with the elements as float or double.
template <class Array, class Body>
void with_floats(const Array& array, const Body& body) {
  if (array.kind() == 'f') body(float());
  else if (array.kind() == 'd') body(double());
  else throw Error("an array of float32 or float64 is needed here");
}
// The same as unsigned integers of their width.
template <class Array, class Body>
void with_codes(const Array& array, const Body& body) {
  switch (array.itemsize()) {
    case 1: return body(std::uint8_t());
    case 2: return body(std::uint16_t());
    case 4: return body(std::uint32_t());
    case 8: return body(std::uint64_t());
    default: throw Error("codes are integers of 8, 16, 32 or 64 bits");
  }
}

// These return false where the layouts do not allow one walk through memory: the caller makes a copy.
bool round_into(const Plan& plan, const InArray& x, const OutArray& out, std::uint64_t seed) {
  check(x, out);
  if (!same_walk(x, out, plan.to.cast.rounding == Rounding::stochastic)) return false;
  if (x.kind() != out.kind()) throw Error("out: its type is not that of the array");
  with_floats(x, [&]<class T>(T) {
    nb::gil_scoped_release release;
    round_array(read<T>(x), write<T>(out), plan.to.format, plan.to.cast, seed);
  });
  return true;
}

bool encode_into(const Plan& plan, const InArray& x, const OutArray& out, std::uint64_t seed) {
  check(x, out);
  if (!same_walk(x, out, plan.to.cast.rounding == Rounding::stochastic)) return false;
  with_floats(x, [&]<class T>(T) {
    with_codes(out, [&]<class U>(U) {
      nb::gil_scoped_release release;
      encode_array(read<T>(x), plan.to.format, plan.to.cast, write<U>(out), seed);
    });
  });
  return true;
}

bool decode_into(const Plan& plan, const InArray& codes, const OutArray& out) {
  check(codes, out);
  if (!same_walk(codes, out, false)) return false;
  with_codes(codes, [&]<class U>(U) {
    with_floats(out, [&]<class T>(T) {
      nb::gil_scoped_release release;
      decode_array(read<U>(codes), plan.to.format, write<T>(out));
    });
  });
  return true;
}

bool convert_into(const Plan& from, const InArray& codes, const Plan& to, const OutArray& out, std::uint64_t seed) {
  check(codes, out);
  if (!same_walk(codes, out, to.to.cast.rounding == Rounding::stochastic)) return false;
  with_codes(codes, [&]<class In>(In) {
    with_codes(out, [&]<class Out>(Out) {
      nb::gil_scoped_release release;
      convert_array<In, Out>(read<In>(codes), from.to.format, write<Out>(out), to.to.format, to.to.cast, seed);
    });
  });
  return true;
}

// Records with the keys of `narrow stats --json`, in the order of the formats asked for.
nb::object statistics_of(const InArray& x, const std::string& type, const std::string& name,
                         const std::vector<std::string>& formats, double scale, const Word& system,
                         const Word& rounding, const Word& overflow, const Word& subnormals,
                         std::optional<int> random_bits, std::uint64_t seed) {
  if (!(scale > 0) || !std::isfinite(scale)) throw Error("scale: a positive finite number is needed");
  const Tensor tensor = tensor_of(name, x, type);
  const app::CastOptions words = cast_words(system, rounding, overflow, subnormals, random_bits);
  std::vector<app::StatsRow> rows;
  std::vector<ScaledCast> casts;
  std::vector<std::size_t> of_cast;
  std::vector<std::optional<BlockFormat>> blocks;
  for (const std::string& format : formats) {
    app::StatsRow row;
    row.tensor = name, row.scale = scale;
    blocks.emplace_back();
    if (is_block_format_name(format)) {
      const app::ChosenBlockFormat chosen = app::choose_block_format(format);
      row.format = chosen.name, blocks.back() = chosen.format;
    } else {
      const app::ChosenFormat chosen = app::choose_format(format);
      row.format = chosen.name;
      casts.push_back({{chosen.format, words.cast_to(chosen.format)}, scale});
      of_cast.push_back(rows.size());
    }
    rows.push_back(std::move(row));
  }
  {
    nb::gil_scoped_release release;
    if (!casts.empty()) {
      const Statistics all = tensor_statistics(tensor, casts, {seed, 0, {}});
      for (std::size_t n = 0; n < casts.size(); ++n)
        rows[of_cast[n]].input = all.input, rows[of_cast[n]].in_format = all.formats[n];
    }
    for (std::size_t n = 0; n < rows.size(); ++n) {
      if (!blocks[n]) continue;
      const BlockFormatStatistics s = block_tensor_statistics(row_major(tensor), *blocks[n], scale, {});
      rows[n].input = s.input, rows[n].in_format = s.elements, rows[n].block_scales = s.scales;
    }
  }
  return to_python(app::stats_json(rows));
}

std::pair<std::uint64_t, std::uint64_t> signs(const SignCounts& counts) { return {counts.negative, counts.positive}; }

Histogram histogram_of(const InArray& x) {
  if (x.kind() != 'f' || !is_dense(x)) throw Error("a float32 array without gaps is needed here");
  nb::gil_scoped_release release;
  Histogram h{exponent_histogram(read<float>(x))};
  for (const float v : read<float>(x))
    if (std::isfinite(v)) h.low = std::min(h.low, v), h.high = std::max(h.high, v);
  return h;
}

// The first exponent that occurs, and the negative and positive counts from there to the last one.
struct Binades {
  explicit Binades(const ExponentHistogram& h) {
    int end = ExponentHistogram::max_exponent + 1;
    while (first < end && h.binade(first).total() == 0) ++first;
    while (end > first && h.binade(end - 1).total() == 0) --end;
    for (int e = first; e < end; ++e)
      negative.push_back(h.binade(e).negative), positive.push_back(h.binade(e).positive);
  }
  int first = ExponentHistogram::min_exponent;
  std::vector<std::uint64_t> negative, positive;
};

nb::tuple binades(const Histogram& h) {
  Binades b(h.counts);
  const std::size_t size = b.negative.size();
  return nb::make_tuple(b.first, numpy_of(std::move(b.negative), {size}), numpy_of(std::move(b.positive), {size}));
}

nb::dict lost(const Histogram& h, const Plan& plan, double scale) {
  int log2 = 0;
  if (!(scale > 0) || std::frexp(scale, &log2) != 0.5) throw Error("scale: a histogram knows powers of two");
  const HistogramShares shares = shares_from_histogram(h.counts, plan.to, log2 - 1);
  nb::dict record;
  const auto add = [&](const char* name, const Bounds& b) { record[name] = nb::make_tuple(b.lower, b.upper); };
  add("underflow", shares.underflow), add("subnormal", shares.subnormal), add("overflow", shares.overflow);
  return record;
}

std::optional<double> best_scale(const Histogram& h, const Plan& plan) {
  const auto log2 = loss_scale_log2(h.counts, h.low, h.high, plan.to);
  return log2 ? std::optional(std::ldexp(1.0, *log2)) : std::nullopt;
}

nb::tuple quantise_array(const InArray& x, const std::string& name) {
  const app::ChosenBlockFormat chosen = app::choose_block_format(name);
  if (x.kind() != 'f' || x.ndim() != 2 || !is_dense(x)) throw Error("a float32 matrix without gaps is needed here");
  Quantised q;
  {
    nb::gil_scoped_release release;
    q = quantise(read<float>(x), x.shape(0), x.shape(1), chosen.format);
  }
  const std::vector<std::size_t> grid{grid_rows(q.format, q.rows), grid_cols(q.format, q.cols)};
  // The rule included, as files name it.
  const std::string full = chosen.name.substr(0, chosen.name.find(':')) + ":" + std::string(row_of(q.format.rule).name);
  const bool has_codes = chosen.format.scale.width() == 8;
  nb::object codes = nb::none();
  if (has_codes) codes = numpy_of(scale_codes(q.scales, q.format), grid);
  nb::object factor = nb::cast(file_factor(q.tensor_scale, q.format)), kept = nb::cast(q.tensor_scale);
  if (q.format.has_row_scales()) {  // one of every row
    std::vector<float> factors = q.row_scales;
    for (float& f : factors) f = file_factor(f, q.format);
    factor = numpy_of(std::move(factors), {q.rows}), kept = numpy_of(std::move(q.row_scales), {q.rows});
  }
  return nb::make_tuple(numpy_of(std::move(q.codes), {q.rows, q.cols}), numpy_of(std::move(q.scales), grid), codes,
                        factor, kept, full);
}

// kept: of the tensor, or of every row.
void dequantise_array(const InArray& codes, const InArray& scales, const InArray& kept, const std::string& name,
                      const OutArray& out) {
  const BlockFormat format = app::choose_block_format(name).format;
  if (codes.kind() != 'B' || scales.kind() != 'f' || kept.kind() != 'f')
    throw Error("codes are uint8, scales and factors float32");
  nb::gil_scoped_release release;
  if (codes.size() == 0) return;
  dequantise_into(read<std::uint8_t>(codes), read<float>(scales), read<float>(kept), codes.shape(0), codes.shape(1),
                  format, write<float>(out));
}

void add_array(Tally& tally, const InArray& x) {
  if (x.kind() != 'f' || !is_dense(x)) throw Error("a float32 array without gaps is needed here");
  nb::gil_scoped_release release;
  tally.add(read<float>(x));
}

// The double with the fewest digits that is nearest to this float.
double shortest(float x) {
  char text[32];
  double y = x;
  if (std::isfinite(x)) std::from_chars(text, std::to_chars(text, std::end(text), x).ptr, y);
  return y;
}

}  // namespace

Tally::Tally(const std::vector<Plan>& formats) : plans(formats) {
  std::vector<FormatCast> casts;
  for (const Plan& plan : plans) casts.push_back(plan.to);
  pass = std::make_shared<const StatisticsPass>(casts);
  statistics.formats.resize(plans.size());
}

void Tally::add(std::span<const float> data) {
  histogram.merge(exponent_histogram(data));
  pass->add(statistics, data);
}

void Tally::add(const ExponentHistogram& binades, const Statistics& next) {
  histogram.merge(binades);
  statistics.merge(next);
}

std::string Tally::json(bool signs, bool formats) const {
  const auto figure = [](double x) { return std::isnan(x) ? app::Json() : app::json_number(x); };
  const InputStatistics& in = statistics.input;
  app::Json line = app::Json::object();
  line["count"] = in.count;
  const auto add = [&](const char* name, const SignCounts& n) {
    line[name] = signs ? app::Json{n.negative, n.positive} : app::Json(n.total());
  };
  add("zero", histogram.zero), add("subnormal", histogram.subnormal), add("inf", histogram.inf);
  add("nan", histogram.nan);
  Binades b(histogram);
  line["first"] = b.negative.empty() ? 0 : b.first;
  if (signs) line["negative"] = b.negative, line["positive"] = b.positive;
  else {
    for (std::size_t i = 0; i < b.negative.size(); ++i) b.positive[i] += b.negative[i];
    line["binades"] = b.positive;
  }
  // Where bytes count, floats by as many digits as tell them from other floats.
  const auto extreme = [&](double x) { return figure(signs ? x : shortest(static_cast<float>(x))); };
  line["amax"] = extreme(in.finite() == 0 ? NAN : in.amax);
  line["min_nonzero"] = extreme(in.min_nonzero == 0 ? NAN : in.min_nonzero);
  line["formats"] = app::Json::array();
  for (std::size_t i = 0; i < plans.size() && formats; ++i) {
    const FormatStatistics& f = statistics.formats[i];
    line["formats"].push_back({{"format", plans[i].chosen.name},
                               {"underflow", f.underflow},
                               {"subnormal", f.subnormal},
                               {"overflow", f.saturated + f.not_finite},
                               {"mse", figure(f.mse())},
                               {"sqnr_db", figure(f.sqnr_db())}});
  }
  return line.dump();
}

void bind_arrays(nb::module_& m) {
  nb::class_<Plan>(m, "Plan")
      .def_prop_ro("name", [](const Plan& p) { return p.chosen.name; })
      .def_prop_ro("bits", [](const Plan& p) { return p.to.format.width(); })
      .def_prop_ro("is_stochastic", [](const Plan& p) { return p.to.cast.rounding == Rounding::stochastic; })
      .def_prop_ro("has_sign", [](const Plan& p) { return p.to.format.has_sign; })
      // Whether the other format holds every value of this one, -0 and specials included.
      .def("fits", [](const Plan& p, const Plan& in) {
        const Format &f = p.to.format, &g = in.to.format;
        return f.max_exponent() <= g.max_exponent() && f.min_quantum_exponent() >= g.min_quantum_exponent() &&
               f.mantissa_bits <= g.mantissa_bits && (g.has_sign || !f.has_sign) &&
               (g.has_negative_zero() || !f.has_negative_zero()) && (g.has_infinity() || !f.has_infinity()) &&
               (g.has_nan() || !f.has_nan());
      });
  m.def("plan", &make_plan, nb::arg("format"), nb::arg("cast") = nb::none(), nb::arg("rounding") = nb::none(),
        nb::arg("overflow") = nb::none(), nb::arg("subnormals") = nb::none(), nb::arg("random_bits") = nb::none());
  m.def("format_numbers", [](const Plan& p) {  // mantissa bits, and the smallest step
    return nb::make_tuple(p.to.format.mantissa_bits, std::ldexp(1.0, p.to.format.min_quantum_exponent()));
  });
  m.def("round", &round_into);
  m.def("encode", &encode_into);
  m.def("decode", &decode_into);
  m.def("convert", &convert_into);
  m.def("statistics", &statistics_of, nb::sig("def statistics(*arguments: typing.Any) -> list[dict[str, typing.Any]]"),
        nb::arg("x"), nb::arg("type"), nb::arg("name"), nb::arg("formats"), nb::arg("scale"), nb::arg("cast").none(),
        nb::arg("rounding").none(), nb::arg("overflow").none(), nb::arg("subnormals").none(),
        nb::arg("random_bits").none(), nb::arg("seed"));
  nb::class_<Histogram>(m, "Histogram")
      .def("lost", &lost)
      .def("best_scale", &best_scale)
      .def_prop_ro("zero", [](const Histogram& h) { return signs(h.counts.zero); })
      .def_prop_ro("subnormal", [](const Histogram& h) { return signs(h.counts.subnormal); })
      .def_prop_ro("inf", [](const Histogram& h) { return signs(h.counts.inf); })
      .def_prop_ro("nan", [](const Histogram& h) { return signs(h.counts.nan); })
      .def("binades", &binades);
  m.def("histogram", &histogram_of);
  nb::class_<Tally>(m, "Tally")
      .def(nb::init<const std::vector<Plan>&>())
      .def(nb::init<const Tally&>())
      .def("add", &add_array)
      .def("json", &Tally::json, nb::arg("signs") = true, nb::arg("formats") = true)
      .def_prop_ro("amax", [](const Tally& t) { return t.statistics.input.amax; });
  m.def("is_block_format", [](const std::string& name) { return is_block_format_name(name); });
  m.def("quantise", &quantise_array);
  m.def("dequantise", &dequantise_array);
}

}  // namespace narrow::python
