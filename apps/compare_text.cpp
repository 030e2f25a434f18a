#include "compare_text.hpp"

#include "narrow/tensor/row_major.hpp"
#include "narrow/text/print.hpp"
#include "number_text.hpp"
#include "table.hpp"
#include "tensor_text.hpp"
#include "terminal.hpp"

namespace app {
namespace {

// Integers have no format; they are shown as they are.
std::int64_t signed_value(narrow::Code code, const narrow::ElementType& type) {
  const int unused = 64 - type.bits;
  return static_cast<std::int64_t>(code << unused) >> unused;
}

std::string code_text(narrow::Code code, const narrow::ElementType& type) {
  if (type.has_format()) return narrow::to_hex_code(code, type.format);
  static constexpr const char* digits = "0123456789ABCDEF";
  std::string text = "0x";
  for (int shift = type.bits - 4; shift >= 0; shift -= 4) text += digits[code >> shift & 15];
  return text;
}

std::string value_text(narrow::Code code, const narrow::ElementType& type) {
  if (type.has_format()) return short_text(code, type.format);
  if (type.kind == narrow::ElementKind::signed_integer) return std::to_string(signed_value(code, type));
  return std::to_string(code);
}

Json value_json(narrow::Code code, const narrow::ElementType& type) {
  if (type.has_format()) return json_number(narrow::decode(code, type.format));
  if (type.kind == narrow::ElementKind::signed_integer) return signed_value(code, type);
  return code;
}

// Of a complex tensor two values make an element: the last index says which.
std::vector<std::uint64_t> indices(const narrow::Tensor& tensor, std::uint64_t index) {
  std::vector<std::uint64_t> shape = tensor.shape;
  if (tensor.type.values() == 2) shape.push_back(2);
  return narrow::indices_of(index, shape);
}

Json to_json(const ComparedTensor& pair, const narrow::Difference& d) {
  Json row;
  row["index"] = indices(pair.x, d.index);
  row["flat"] = d.index;
  row["x_code"] = code_text(d.x, pair.x.type);
  row["y_code"] = code_text(d.y, pair.y.type);
  row["x"] = value_json(d.x, pair.x.type);
  row["y"] = value_json(d.y, pair.y.type);
  row["ulp"] = d.ulp ? Json(*d.ulp) : Json();
  return row;
}

// Bin k > 1 holds the distances 2^(k-2) + 1 to 2^(k-1).
std::uint64_t bin_first(std::size_t k) { return k <= 1 ? k : (std::uint64_t{1} << (k - 2)) + 1; }
std::uint64_t bin_last(std::size_t k) { return k <= 1 ? k : k == 65 ? ~std::uint64_t{0} : std::uint64_t{1} << (k - 1); }

std::string bin_text(std::size_t k) {
  const std::uint64_t a = bin_first(k), b = bin_last(k);
  return a == b ? std::to_string(a) : std::to_string(a) + "-" + std::to_string(b);
}

std::string differences_text(const ComparedTensor& pair, const std::vector<narrow::Difference>& list, bool colour) {
  constexpr Align l = Align::left, r = Align::right;
  Table table{{"index", "flat", "X code", "Y code", "X", "Y", "ulp"}, {l, r, l, l, l, l, r}, {}};
  for (const narrow::Difference& d : list)
    table.rows.push_back({shape_text(indices(pair.x, d.index)), std::to_string(d.index), code_text(d.x, pair.x.type),
                          code_text(d.y, pair.y.type), value_text(d.x, pair.x.type), value_text(d.y, pair.y.type),
                          d.ulp ? std::to_string(*d.ulp) : "NaN"});
  return table.to_text(colour, 4);
}

std::string distribution_text(const narrow::Comparison& c, bool colour) {
  Table table{{"ulp", "values"}, {Align::right, Align::left}, {}};
  table.rows.push_back({"equal bits", count_text(c.equal, c.total)});
  for (std::size_t k = 0; k < narrow::ulp_bins; ++k)
    if (c.by_ulp[k] != 0)
      table.rows.push_back({k == 0 ? "0 (sign of zero)" : bin_text(k), count_text(c.by_ulp[k], c.total)});
  if (c.nan_payload != 0) table.rows.push_back({"NaN, other bits", count_text(c.nan_payload, c.total)});
  if (c.nan_mismatch != 0) table.rows.push_back({"NaN against a number", count_text(c.nan_mismatch, c.total)});
  return table.to_text(colour, 4);
}

std::string verdict(const ComparedTensor& pair, std::optional<std::uint64_t> max_ulp) {
  if (!pair.missing_in.empty()) return "not in " + printable(pair.missing_in);
  if (pair.found.equal_bits()) return "equal bits";
  return is_good(pair, max_ulp) ? "within " + std::to_string(*max_ulp) + " ulp" : "differs";
}

Cell verdict_cell(const ComparedTensor& pair, std::optional<std::uint64_t> max_ulp) {
  const std::string text = verdict(pair, max_ulp);
  return {text, paint(text, is_good(pair, max_ulp) ? Colour::green : Colour::red, true)};
}

std::string details(const ComparedTensor& pair, bool colour) {
  const narrow::Comparison& c = pair.found;
  std::string text = "  distances\n" + distribution_text(c, colour);
  const bool same = c.first.size() == c.worst.size() && c.total - c.equal <= c.first.size();
  if (!same) text += "  first differences\n" + differences_text(pair, c.first, colour);
  return text + (same ? "  differences, worst first\n" : "  worst differences\n") +
         differences_text(pair, c.worst, colour);
}

std::string heading(const ComparedTensor& pair, std::optional<std::uint64_t> max_ulp, bool colour) {
  const std::string name = pair.name.empty() ? "tensor" : printable(pair.name);
  std::string text = paint(name, Colour::bold, colour) + ": " +
                     (colour ? verdict_cell(pair, max_ulp).painted : verdict(pair, max_ulp));
  if (!pair.missing_in.empty()) return text + "\n";
  const narrow::Comparison& c = pair.found;
  text += ", " + std::string(pair.x.type.name) + " " + shape_text(pair.x.shape) + ", " + std::to_string(c.equal) +
          " of " + std::to_string(c.total) + " values equal";
  if (!c.equal_bits()) text += ", max " + std::to_string(c.max_ulp) + " ulp";
  return text + "\n";
}

}  // namespace

bool is_good(const ComparedTensor& pair, std::optional<std::uint64_t> max_ulp) {
  if (!pair.missing_in.empty()) return false;
  return max_ulp ? pair.found.within(*max_ulp) : pair.found.equal_bits();
}

Json compare_json(const ComparedTensor& pair, std::optional<std::uint64_t> max_ulp) {
  const narrow::Comparison& c = pair.found;
  const bool missing = !pair.missing_in.empty();
  Json out;
  out["tensor"] = pair.name;
  out["dtype"] = pair.x.type.name;
  out["shape"] = pair.x.shape;
  out["total"] = missing ? pair.x.values() : c.total;
  out["equal_count"] = c.equal;
  out["equal_bits"] = !missing && c.equal_bits();
  out["max_ulp"] = missing ? Json() : Json(c.max_ulp);
  out["nan_mismatch"] = c.nan_mismatch;
  out["nan_payload"] = c.nan_payload;
  out["zero_sign_mismatch"] = c.zero_sign_mismatch;
  out["within"] = is_good(pair, max_ulp);
  out["missing_in"] = missing ? Json(pair.missing_in) : Json();
  Json bins = Json::array();
  for (std::size_t k = 0; k < narrow::ulp_bins; ++k)
    if (c.by_ulp[k] != 0) {
      Json bin;
      bin["from"] = bin_first(k);
      bin["to"] = bin_last(k);
      bin["count"] = c.by_ulp[k];
      bins.push_back(std::move(bin));
    }
  out["ulp"] = std::move(bins);
  for (const char* key : {"first", "worst"}) {
    Json list = Json::array();
    for (const narrow::Difference& d : key == std::string("first") ? c.first : c.worst)
      list.push_back(to_json(pair, d));
    out[key] = std::move(list);
  }
  return out;
}

std::string compare_text(const std::vector<ComparedTensor>& pairs, std::optional<std::uint64_t> max_ulp, bool colour) {
  if (pairs.size() == 1) {
    const ComparedTensor& pair = pairs.front();
    const bool show = pair.missing_in.empty() && !pair.found.equal_bits();
    return heading(pair, max_ulp, colour) + (show ? details(pair, colour) : "");
  }
  constexpr Align l = Align::left, r = Align::right;
  constexpr std::size_t most_details = 3;
  Table table{{"tensor", "type", "values", "equal", "max ulp", "NaN against number", "sign of zero", "verdict"},
              {l, l, r, r, r, r, r, l},
              {}};
  std::string more;
  std::size_t bad = 0;
  for (const ComparedTensor& pair : pairs) {
    const narrow::Comparison& c = pair.found;
    const bool missing = !pair.missing_in.empty(), good = is_good(pair, max_ulp);
    const auto count = [&](std::uint64_t n) { return missing ? std::string("-") : std::to_string(n); };
    table.rows.push_back({printable(pair.name), std::string(pair.x.type.name), std::to_string(pair.x.values()),
                          count(c.equal), count(c.max_ulp), count(c.nan_mismatch), count(c.zero_sign_mismatch),
                          verdict_cell(pair, max_ulp)});
    if (!good && ++bad <= most_details && !missing)
      more += "\n" + heading(pair, max_ulp, colour) + details(pair, colour);
  }
  std::string text = table.to_text(colour) + more;
  if (bad > most_details)
    text += "\n" + std::to_string(bad) + " tensors differ; --tensors NAME shows the differences of others\n";
  if (bad == 0)
    text += std::to_string(pairs.size()) + " tensors, none differs" + (max_ulp ? " beyond what is allowed" : "") + "\n";
  return text;
}

}  // namespace app
