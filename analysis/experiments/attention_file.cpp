#include "analysis/experiments/attention_file.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "narrow/base/error.hpp"
#include "narrow/tensor/tensor_file.hpp"

namespace analysis {
namespace {

using Shape = std::vector<std::size_t>;

// ---- Names ----

enum class Role : std::uint8_t { none, query, key, fused, grouped };  // grouped: q, k and v of a head side by side

struct Token {
  std::size_t begin = 0;
  std::string word;  // lower case, without digits at its end
};

// "layers.0.self_attn.q_proj": layers, "", self, attn, q, proj.
std::vector<Token> tokens_of(const std::string& name) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (std::isalnum(c) == 0) continue;
    if (i == 0 || std::isalnum(static_cast<unsigned char>(name[i - 1])) == 0) tokens.push_back({i, ""});
    if (std::isdigit(c) == 0) tokens.back().word += static_cast<char>(std::tolower(c));
  }
  return tokens;
}

struct Meaning {
  Role role = Role::none;
  std::string pair;   // the same for a query and its key
  std::string layer;  // the same for everything that could be a query of one layer
};

// How queries and keys are called; the words of a row belong together.
constexpr const char* role_words[][2] = {{"q", "k"}, {"query", "key"}, {"queries", "keys"}, {"wq", "wk"}, {"xq", "xk"}};
// Words that say how far a query has come, not which one it is.
constexpr std::string_view stages[] = {"proj", "lin",  "dense", "norm",   "rot",   "rotary", "rope",   "rotated",
                                       "pre",  "post", "raw",   "states", "cache", "cached", "output", "out"};

Meaning meaning_of(const std::string& name) {
  const std::string kind = kind_of_tensor(name);
  if (kind == "weights" || kind.find("gradients") != std::string::npos) return {};
  const std::vector<Token> tokens = tokens_of(name);
  const auto is = [&](std::size_t i, std::string_view word) { return i < tokens.size() && tokens[i].word == word; };
  Meaning m;
  std::size_t place = tokens.size(), row = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    for (const char* other : {"scale", "scales", "mask", "ids"})
      if (is(i, other)) return {};
    if (is(i, "qkv") || is(i, "wqkv") || (is(i, "c") && is(i + 1, "attn"))) m.role = Role::fused, place = i;
    if (is(i, "linear") && is(i + 1, "qkv")) return {Role::grouped, name, name};
    if (is(i, "query") && is(i + 1, "key") && is(i + 2, "value")) return {Role::grouped, name, name};
    for (std::size_t w = 0; w < std::size(role_words); ++w)
      for (const bool key : {false, true})
        if (is(i, role_words[w][key])) m.role = key ? Role::key : Role::query, place = i, row = w;
  }
  if (m.role == Role::none || m.role == Role::fused) return {m.role, name, name};
  const std::size_t length = std::string_view(role_words[row][m.role == Role::key]).size();
  m.pair = name;
  m.pair.replace(tokens[place].begin, length, "*" + std::to_string(row));
  std::size_t end = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::size_t next = i + 1 < tokens.size() ? tokens[i + 1].begin : name.size();
    const std::string text = name.substr(tokens[i].begin, next - tokens[i].begin);
    const bool stage = std::find(std::begin(stages), std::end(stages), tokens[i].word) != std::end(stages);
    if (i == place) m.layer += "*" + text.substr(length);
    else if (!stage) m.layer += text;
    end = next;
  }
  m.layer += name.substr(end);
  while (!m.layer.empty() && std::isalnum(static_cast<unsigned char>(m.layer.back())) == 0 && m.layer.back() != '*')
    m.layer.pop_back();
  return m;
}

// "a, b and 7 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() <= most ? text : text + " and " + std::to_string(names.size() - most) + " more";
}

struct Pair {
  std::size_t q = 0, k = 0;
  Role role = Role::query;
};

// A tensor of that name, or all whose names end with it.
std::vector<std::size_t> named(const std::vector<std::string>& names, const std::string& end) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == end) return {i};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i].ends_with(end)) {
      const std::size_t at = names[i].size() - end.size();
      if (at == 0 || std::isalnum(static_cast<unsigned char>(names[i][at - 1])) == 0) found.push_back(i);
    }
  return found;
}

std::vector<Pair> asked_pairs(const AttentionRequest& r, const std::vector<std::string>& names) {
  const auto fail = [&](const std::string& what) {
    return narrow::Error(r.file + ": " + what + "; its floating tensors are " + some_of(names));
  };
  if (r.q.empty()) throw fail("k=" + r.k + " is given without q=NAME");
  const std::vector<std::size_t> queries = named(names, r.q), keys = named(names, r.k.empty() ? r.q : r.k);
  if (queries.empty()) throw fail("no tensor is called " + r.q + " or ends with it (q=)");
  if (keys.empty()) throw fail("no tensor is called " + r.k + " or ends with it (k=)");
  std::vector<Pair> pairs;
  for (const std::size_t q : queries) {
    const Role role = meaning_of(names[q]).role;
    if (r.k.empty() || r.k == r.q) {
      if (role != Role::fused && role != Role::grouped)
        throw fail("q=" + r.q + " is given without k=NAME, and its name does not say that it holds q, k and v in one");
      pairs.push_back({q, q, role});
      continue;
    }
    if (queries.size() == 1 && keys.size() == 1) return {{q, keys[0], Role::query}};
    const std::string prefix = names[q].substr(0, names[q].size() - r.q.size());
    const auto match = std::find_if(keys.begin(), keys.end(), [&](std::size_t k) { return names[k] == prefix + r.k; });
    if (match == keys.end()) throw fail(names[q] + " has no key: there is no tensor " + prefix + r.k);
    pairs.push_back({q, *match, Role::query});
  }
  return pairs;
}

std::vector<Pair> found_pairs(const AttentionRequest& r, const std::vector<std::string>& names) {
  std::vector<Pair> pairs;
  std::vector<std::size_t> queries, keys;
  std::vector<Meaning> meanings;
  for (std::size_t i = 0; i < names.size(); ++i) {
    meanings.push_back(meaning_of(names[i]));
    if (meanings[i].role == Role::query) queries.push_back(i);
    if (meanings[i].role == Role::key) keys.push_back(i);
  }
  const auto fail = [&](const std::string& what, const std::string& type) {
    return narrow::Error(r.file + ": " + what + "; type " + type + " to name them (names, or the ends of names)");
  };
  std::map<std::string, std::size_t> taken;  // which query stands for a layer
  for (const std::size_t q : queries) {
    const auto same = [&](std::string Meaning::*part) {
      std::vector<std::size_t> found;
      for (const std::size_t k : keys)
        if (meanings[k].*part == meanings[q].*part) found.push_back(k);
      return found;
    };
    std::vector<std::size_t> fit = same(&Meaning::pair);
    if (fit.empty()) fit = same(&Meaning::layer);
    if (fit.empty() && queries.size() == 1 && keys.size() == 1) fit = keys;
    if (fit.size() > 1)
      throw fail(names[q] + " has more than one key: " + names[fit[0]] + ", " + names[fit[1]],
                 "q=" + names[q] + " k=" + names[fit[0]]);
    if (fit.empty()) {
      std::vector<std::string> others;
      for (const std::size_t k : keys) others.push_back(names[k]);
      throw fail(names[q] + " has no key of its layer; " +
                     (others.empty() ? "no tensor is called k or key" : "keys are " + some_of(others)),
                 "q=NAME k=NAME");
    }
    const auto [before, is_new] = taken.emplace(meanings[q].layer, q);
    if (!is_new)
      throw fail("both " + names[before->second] + " and " + names[q] + " could be the queries of one layer",
                 "q=" + names[q] + " k=" + names[fit[0]]);
    pairs.push_back({q, fit[0], Role::query});
  }
  if (pairs.empty())
    for (std::size_t i = 0; i < names.size(); ++i)
      if (meanings[i].role == Role::fused || meanings[i].role == Role::grouped)
        pairs.push_back({i, i, meanings[i].role});
  if (pairs.empty())
    throw fail(
        "no tensor is called q and k, query and key, q_proj and k_proj, qkv or c_attn (weights and gradients are "
        "not attention); its floating tensors are " +
            some_of(names),
        "q=NAME k=NAME");
  return pairs;
}

// ---- Shapes ----

std::string text_of(const Shape& s) {
  std::string text;
  for (const std::size_t n : s) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

// Where the values of one head lie: `at` + position * step + index within d.
struct Part {
  std::size_t batch = 1, heads = 1, positions = 0, d = 0;
  std::size_t batch_step = 0, head_step = 0, position_step = 0;
  std::size_t first = 0;                  // of the first head
  std::size_t group = 1, group_step = 0;  // heads come in groups of so many, these so far apart; 0: not in groups

  std::size_t at(std::size_t b, std::size_t head) const {
    return first + b * batch_step +
           (group_step == 0 ? head * head_step : head / group * group_step + head % group * head_step);
  }
};

std::size_t product(Shape::const_iterator from, Shape::const_iterator to) {
  return std::accumulate(from, to, std::size_t{1}, std::multiplies<>{});
}

// One tensor by a layout; nothing where its rank does not allow that.
std::optional<Part> part_of(const Shape& s, std::string_view layout, std::size_t d_of_btc) {
  Part p;
  if (layout == "btc") {
    if (s.size() < 2 || d_of_btc == 0 || s.back() % d_of_btc != 0) return {};
    p.batch = product(s.begin(), s.end() - 2), p.positions = s[s.size() - 2], p.d = d_of_btc;
    p.heads = s.back() / p.d, p.head_step = p.d, p.position_step = s.back();
    p.batch_step = p.positions * p.position_step;
    return p;
  }
  if (s.size() < 2 || (s.size() == 2 && layout == "bthd")) return {};
  const std::size_t a = s.size() == 2 ? 1 : s[s.size() - 3], b = s[s.size() - 2];
  p.d = s.back(), p.batch = s.size() < 3 ? 1 : product(s.begin(), s.end() - 3);
  p.batch_step = a * b * p.d;
  if (layout == "bhtd") p.heads = a, p.positions = b, p.head_step = b * p.d, p.position_step = p.d;
  else p.heads = b, p.positions = a, p.head_step = p.d, p.position_step = b * p.d;
  return p;
}

struct Fit {
  std::string layout;
  Part q, k;
};

// No model in use has larger heads, or more: a larger last dimension holds all heads, a larger other one positions.
constexpr std::size_t largest_d = 512, most_heads = 128;

std::optional<Fit> fit(const Shape& q, const Shape& k, const std::string& layout, const AttentionRequest& r) {
  const std::size_t d = r.heads == 0 || q.back() % r.heads != 0 ? 0 : q.back() / r.heads;
  const std::optional<Part> a = part_of(q, layout, d), b = part_of(k, layout, d);
  if (!a || !b || a->batch != b->batch || a->d != b->d || a->d == 0 || a->heads % b->heads != 0) return {};
  if (r.causal && b->positions < a->positions) return {};  // the last query sees every key
  if ((r.heads != 0 && a->heads != r.heads) || (r.kv_heads != 0 && b->heads != r.kv_heads)) return {};
  return Fit{layout, *a, *b};
}

Fit choose_fit(const std::string& what, const Shape& q, const Shape& k, const AttentionRequest& r,
               std::vector<std::string>& notes) {
  const std::string both = what + ": q is " + text_of(q) + ", k " + text_of(k);
  std::vector<Fit> fits;
  for (const char* layout : {"bhtd", "bthd", "btc"}) {
    if (r.layout != "auto" && r.layout != layout) continue;
    if (r.layout == "auto" && q.size() > 3 && layout == std::string_view("btc")) continue;
    if (std::optional<Fit> f = q.empty() || k.empty() ? std::nullopt : fit(q, k, layout, r)) fits.push_back(*f);
  }
  const auto in_use = [](const Fit& f) { return f.q.d <= largest_d && f.q.heads <= most_heads; };
  if (r.layout == "auto" && std::any_of(fits.begin(), fits.end(), in_use)) std::erase_if(fits, std::not_fn(in_use));
  const auto same = [](const Fit& a, const Fit& b) {
    return a.q.heads == b.q.heads && a.q.positions == b.q.positions && a.q.d == b.q.d;
  };
  fits.erase(std::unique(fits.begin(), fits.end(), same), fits.end());
  if (fits.empty())
    throw narrow::Error(both +
                        ", which is no pair of [batch, heads, positions, d], [batch, positions, heads, d] or "
                        "(with heads=N) [batch, positions, heads * d] with " +
                        (r.causal ? "at least as many keys as queries (mask=none takes fewer) and " : "") +
                        "as many heads in q as in k, or a multiple; type heads=, kv_heads= or layout=");
  if (r.layout == "auto" && r.heads == 0 && fits[0].q.d > largest_d)
    throw narrow::Error(both + ": " + std::to_string(fits[0].q.d) +
                        " is more than one head has; type heads=N, the number of heads that share it");
  const auto reading = [](const Fit& f) {
    return std::to_string(f.q.heads) + (f.q.heads == 1 ? " head" : " heads") + " of " + std::to_string(f.q.positions) +
           " positions, d = " + std::to_string(f.q.d);
  };
  // Heads first is how scores are multiplied; a model has fewer heads than positions in all but the shortest texts.
  if (fits.size() > 1 && (r.heads != 0 || fits[0].q.heads > fits[0].q.positions))
    throw narrow::Error(both + ": can be " + reading(fits[0]) + " (layout=" + fits[0].layout + ") or " +
                        reading(fits[1]) + " (layout=" + fits[1].layout + "); type the one that is meant");
  std::string note;
  if (fits.size() > 1) note = "; layout=" + fits[1].layout + " reads " + reading(fits[1]);
  else if (q.size() == 2 && r.heads == 0) note = "; heads=N reads the last dimension as that of N heads";
  if (!note.empty()) {
    note = text_of(q) + " is read as " + reading(fits[0]) + note + ".";
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
  return fits[0];
}

// q, k and v in one tensor.
Fit fused_fit(const std::string& what, const Shape& s, Role role, const AttentionRequest& r) {
  const std::string is = what + " is " + text_of(s) + ", q, k and v in one";
  Fit f;
  if (s.size() == 5 && (s[2] == 3 || s[0] == 3)) {
    Part p;
    p.d = s[4];
    if (s[2] == 3)
      p.batch = s[0], p.positions = s[1], p.heads = s[3], p.head_step = p.d, p.position_step = 3 * p.heads * p.d,
      p.batch_step = p.positions * p.position_step;
    else
      p.batch = s[1], p.heads = s[2], p.positions = s[3], p.position_step = p.d, p.head_step = p.positions * p.d,
      p.batch_step = p.heads * p.head_step;
    if (r.heads != 0 && r.heads != p.heads)
      throw narrow::Error(is + " of " + std::to_string(p.heads) + " heads; heads=" + std::to_string(r.heads) +
                          " is not so");
    f = {"", p, p};
    f.k.first = s[2] == 3 ? p.heads * p.d : p.batch * p.batch_step;
    return f;
  }
  if (s.size() < 2 || r.heads == 0)
    throw narrow::Error(is + "; type heads=N (and kv_heads=N where keys have fewer) to split it");
  const std::size_t keys = r.kv_heads == 0 ? r.heads : r.kv_heads, parts = r.heads + 2 * keys;
  if (r.heads % keys != 0 || s.back() % parts != 0)
    throw narrow::Error(is + "; " + std::to_string(r.heads) + " heads of q and " + std::to_string(keys) +
                        " of k and of v do not divide its last dimension; type other heads= and kv_heads=");
  Part p;
  p.batch = product(s.begin(), s.end() - 2), p.positions = s[s.size() - 2], p.heads = r.heads;
  p.d = s.back() / parts, p.head_step = p.d, p.position_step = s.back(), p.batch_step = p.positions * s.back();
  f = {"", p, p};
  f.k.heads = keys, f.k.first = r.heads * p.d;
  if (role == Role::grouped) {
    f.q.group = r.heads / keys, f.q.group_step = f.k.group_step = (f.q.group + 2) * p.d;
    f.k.first = f.q.group * p.d;
  }
  return f;
}

// ---- Heads ----

std::vector<float> values_of(const std::vector<float>& data, const Part& p, std::size_t b, std::size_t head) {
  std::vector<float> out(p.positions * p.d);
  for (std::size_t i = 0; i < p.positions; ++i) {
    const auto* from = &data[p.at(b, head) + i * p.position_step];
    std::copy(from, from + p.d, &out[i * p.d]);
    if (!std::all_of(from, from + p.d, [](float x) { return std::isfinite(x); }))
      std::fill(&out[i * p.d], &out[i * p.d] + p.d, 0.0f);
  }
  return out;
}

AttentionLayer layer_of(const Values& q, const Values& k, const Fit& f, bool causal) {
  AttentionLayer layer{q.name, {}};
  for (std::size_t b = 0; b < f.q.batch; ++b)
    for (std::size_t h = 0; h < f.q.heads; ++h)
      layer.heads.push_back({f.q.positions, f.k.positions, f.q.d, values_of(q.data, f.q, b, h),
                             values_of(k.data, f.k, b, h / (f.q.heads / f.k.heads)), causal, h, b});
  return layer;
}

}  // namespace

Attention read_attention(const AttentionRequest& request) {
  std::string unread;
  const std::vector<Values> all = read_values_of(request.file, "", &unread);
  std::vector<std::string> names;
  for (const Values& v : all) names.push_back(v.name);
  const bool asked = !request.q.empty() || !request.k.empty();
  const std::vector<Pair> pairs = asked ? asked_pairs(request, names) : found_pairs(request, names);
  Attention out;
  std::set<std::size_t> counted;
  for (const Pair& pair : pairs) {
    const Values &q = all[pair.q], &k = all[pair.k];
    const std::string what = request.file + ": " + q.name;
    const bool separate = pair.role == Role::query;
    const Fit f = separate ? choose_fit(what, q.shape, k.shape, request, out.notes)
                           : fused_fit(what, q.shape, pair.role, request);
    for (const std::size_t i : {pair.q, pair.k})
      if (counted.insert(i).second) out.not_finite.add(all[i]);
    out.layers.push_back(layer_of(q, k, f, request.causal));
  }
  if (!unread.empty()) out.notes.push_back(unread);
  return out;
}

}  // namespace analysis
