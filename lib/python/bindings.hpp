// What the parts of the extension module share: arrays of any library as memory, records as Python objects.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cli/json_value.hpp"
#include "narrow/array/histogram.hpp"
#include "narrow/scale/block_format.hpp"
#include "narrow/tensor/tensor.hpp"
#include "options/cast_options.hpp"
#include "options/format_list.hpp"

namespace narrow::python {

namespace nb = nanobind;

// The memory of a numpy array, by the buffer protocol: with DLPack a call on two arrays of 16 floats takes 1.7 us, so
// 1.3. Strides count elements.
template <bool writable>
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~Memory() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  bool open(nb::handle array) noexcept {
    if (PyObject_GetBuffer(array.ptr(), &view_, writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO) == 0) return true;
    PyErr_Clear();
    view_ = {};
    return false;
  }
  std::conditional_t<writable, void*, const void*> data() const { return view_.buf; }
  std::size_t nbytes() const { return static_cast<std::size_t>(view_.len); }
  std::size_t itemsize() const { return static_cast<std::size_t>(view_.itemsize); }
  std::size_t size() const { return nbytes() / itemsize(); }
  std::size_t ndim() const { return static_cast<std::size_t>(view_.ndim); }
  std::size_t shape(std::size_t i) const { return static_cast<std::size_t>(view_.shape[i]); }
  std::int64_t stride(std::size_t i) const {
    return view_.strides[i] % view_.itemsize == 0 ? view_.strides[i] / view_.itemsize : std::int64_t{-1} << 62;
  }
  // 'f', 'd', ...; numpy writes "=f" where the memory is not aligned
  char kind() const {
    const std::string_view format = view_.format != nullptr ? view_.format : "?";
    return format.size() == 2 && format[0] == '=' ? format[1] : format.size() == 1 ? format[0] : '?';
  }

 private:
  Py_buffer view_{};
};
using InArray = Memory<false>;
using OutArray = Memory<true>;

nb::object to_python(const app::Json& value);

using Word = std::optional<std::string>;

// A format and how it is reached: made once for the same words, since names take longer to read than small arrays.
struct Plan {
  app::ChosenFormat chosen;
  FormatCast to;
};

// How an operand of a product is scaled: whole tensors, or blocks along the sum.
struct OperandScaling {
  BlockFormat format;
};

// The binades of FP32 and what follows from them, beside the extremes that decide the largest scale.
struct Histogram {
  ExponentHistogram counts;
  float low = 0, high = 0;
};

// Data that comes in pieces: their binades, and what formats do to them.
struct Tally {
  explicit Tally(const std::vector<Plan>& formats);
  void add(std::span<const float> data);
  void add(const ExponentHistogram& binades, const Statistics& next);
  // What a line of a run folder says of its tensor. Without signs: binades of magnitudes.
  std::string json(bool signs = true, bool formats = true) const;

  std::vector<Plan> plans;
  std::shared_ptr<const StatisticsPass> pass;
  ExponentHistogram histogram;
  Statistics statistics;
};

// An array as a tensor, in C or Fortran order, of the type that .safetensors names so. The memory stays the caller's.
Tensor tensor_of(std::string name, const InArray& array, const std::string& type);

// A new numpy array over memory that moves into it.
template <class T>
nb::object numpy_of(std::vector<T> values, std::vector<std::size_t> shape) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner), nb::rv_policy::reference);
}

// strides as of an array without gaps whose last (or first) index runs fastest
template <bool writable>
bool is_dense(const Memory<writable>& array, bool last_fastest = true) {
  std::int64_t expected = 1;
  for (std::size_t n = 0; n < array.ndim(); ++n) {
    const std::size_t i = last_fastest ? array.ndim() - 1 - n : n;
    if (array.shape(i) != 1 && array.stride(i) != expected) return array.size() == 0;
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

void bind_arrays(nb::module_& m);
void bind_device(nb::module_& m);  // with CUDA
void bind_operations(nb::module_& m);
void bind_products(nb::module_& m);
void bind_scaling(nb::module_& m);
void bind_tensors(nb::module_& m);
void bind_training(nb::module_& m);

}  // namespace narrow::python

template <bool writable>
struct nanobind::detail::type_caster<narrow::python::Memory<writable>> {
  NB_TYPE_CASTER(narrow::python::Memory<writable>, const_name("numpy.ndarray"))
  bool from_python(handle array, std::uint32_t, cleanup_list*) noexcept { return value.open(array); }
};
