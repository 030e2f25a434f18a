// Loss scalers and tensor recipes as objects, and run over a log of gradients.
#include <nanobind/stl/map.h>

#include "bindings.hpp"
#include "narrow/scale/trace.hpp"

namespace narrow::python {
namespace {

class PythonScaler {
 public:
  PythonScaler(const std::string& text, const std::map<std::string, double>& parameters) {
    std::string words = text;
    for (const auto& [name, value] : parameters) {
      char number[40];
      std::snprintf(number, sizeof number, "%.17g", value);
      words += ":" + name + "=" + number;
    }
    named_ = make_scaler(words);
  }
  float scale() const { return named_.scaler->scale(); }
  std::string step(const nb::object& found_inf, const nb::object& amax) {
    const int truth = PyObject_IsTrue(found_inf.ptr());
    if (truth < 0) throw nb::python_error();
    float largest = 0;
    if (!nb::try_cast(amax, largest)) throw nb::type_error("amax: a number is needed");
    named_.scaler->observe({truth != 0, largest});
    return std::string(name_of(named_.scaler->event()));
  }
  std::string state() const { return named_.scaler->state_text(); }
  std::string name() const { return std::string(named_.row->name); }

 private:
  NamedScaler named_;
};

nb::dict scale_trace(const std::vector<std::int64_t>& steps, const std::vector<float>& amax,
                     const std::vector<std::uint8_t>& found_inf, const std::vector<float>& scale,
                     const std::vector<std::string>& policies) {
  const OverflowModel model({.steps = steps, .amax = amax, .found_inf = found_inf, .scale = scale});
  nb::dict all;
  for (const std::string& policy : policies) {
    const Trace trace = run_trace(*make_scaler(policy).scaler, model);
    nb::list rows;
    for (std::size_t i = 0; i < trace.steps.size(); ++i) {
      nb::dict row;
      row["step"] = steps[i], row["scale"] = trace.steps[i].scale;
      if (trace.steps[i].certainty == Certainty::unknown) row["skipped"] = nb::none();  // the log does not tell
      else row["skipped"] = trace.steps[i].skipped;
      row["event"] = std::string(name_of(trace.steps[i].event));
      row["certain"] = trace.steps[i].certainty == Certainty::exact;
      rows.append(row);
    }
    all[policy.c_str()] = rows;
  }
  return all;
}

}  // namespace

void bind_scaling(nb::module_& m) {
  nb::class_<PythonScaler>(m, "Scaler", "A loss scaler or tensor recipe with its state; narrow.scaler() makes one.")
      .def(nb::init<const std::string&, const std::map<std::string, double>&>())
      .def_prop_ro("name", &PythonScaler::name)
      .def_prop_ro("scale", &PythonScaler::scale, "What the next step is multiplied by.")
      .def_prop_ro("state", &PythonScaler::state, "Everything that it remembers, as text.")
      .def("step", &PythonScaler::step, nb::arg("found_inf") = nb::bool_(false), nb::arg("amax") = nb::float_(0.0),
           "Tells it what a step showed; returns what that did to the scale: 'none', 'grew', 'backed_off', ...");
  m.def("scale_trace", &scale_trace);
}

}  // namespace narrow::python
