// Queries and keys of a tensor file: which tensors they are, and which of their dimensions are heads and positions.
#pragma once

#include <string>
#include <vector>

#include "analysis/experiments/attention_model.hpp"
#include "analysis/recordings/inputs.hpp"

namespace analysis {

struct AttentionRequest {
  std::string file;
  std::string q = {}, k = {};           // names, or ends of names; empty: by the names that frameworks give
  std::size_t heads = 0, kv_heads = 0;  // 0: as the shapes say
  std::string layout = "auto";          // bhtd, bthd, btc: order of batch, heads, time and d (c: all heads in one)
  bool causal = true;
};

struct AttentionLayer {
  std::string name;         // of its queries
  std::vector<Head> heads;  // of all sequences
};

struct Attention {
  std::vector<AttentionLayer> layers;  // in the order of the file
  NotFinite not_finite;                // in q and k; what holds one counts as a position of zeros
  std::vector<std::string> notes;      // how shapes were read where they can be read in two ways
};

// Throws Error when the file has no such tensors, when it has several that could be meant, or when their shapes fit no
// layout or more than one: the line says which names and shapes there are and what to type.
Attention read_attention(const AttentionRequest& request);

}  // namespace analysis
