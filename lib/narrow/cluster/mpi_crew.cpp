#include "narrow/cluster/mpi_crew.hpp"

#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <thread>

#include "narrow/base/error.hpp"
#include "narrow/base/random.hpp"

namespace narrow::cluster {
namespace {

// What a node's ranks know of each other when one of them can no longer be asked.
struct Slot {
  pid_t process;
  int rank;
  cpu_set_t cpus;
  char item[400];                  // empty: between two
  volatile sig_atomic_t was_told;  // to end: its death is no news
};

Slot* slots = nullptr;  // of this node
int slot_count = 0, own_slot = 0;

void set_item(const std::string& name) {
  Slot& own = slots[own_slot];
  const std::size_t length = std::min(name.size(), sizeof own.item - 1);
  std::memcpy(own.item, name.data(), length);
  own.item[length] = 0;
}

bool is_alive(const Slot& slot) noexcept { return kill(slot.process, 0) == 0 || errno != ESRCH; }

void say(const char* text) noexcept {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}
void say(int number) noexcept {
  char digits[12] = {};
  char* at = digits + sizeof digits - 1;
  do *--at = static_cast<char>('0' + number % 10);
  while ((number /= 10) > 0);
  say(at);
}

// Every meeting of all ranks opens with what each has come for, so that ranks that see other files than the rest say so
// and do not wait for each other at different places.
enum class Meeting : std::uint64_t { share, together, from_first, end, failed };

constexpr std::uint64_t no_more = ~std::uint64_t{0};  // items

constexpr int ask_tag = 1, answer_tag = 2, exchange_tag = 3;

// What MPI_Allreduce calls has no other way to know.
const Messages::Add* adding = nullptr;
std::size_t adding_unit = 1;
constexpr auto patience = std::chrono::seconds(2);  // for the others to fail as well

struct Failure {
  std::uint64_t item = ~std::uint64_t{0};
  std::string message;
};

struct Contribution {
  std::vector<std::uint64_t> items;
  std::vector<Bytes> results;
  Failure failure;
};
template <class Archive>
void members(Archive& archive, Failure& f) {
  archive(f.item, f.message);
}
template <class Archive>
void members(Archive& archive, Contribution& c) {
  archive(c.items, c.results, c.failure);
}

template <class Work>
Failure failure_of(std::uint64_t item, const std::string& where, const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    return {item, where + "not enough memory for this request"};
  } catch (const std::exception& error) {
    return {item, where + error.what()};
  }
  return {};
}

}  // namespace

struct MpiCrew::State {
  int rank = 0, size = 1;
  bool is_over = false;  // a meeting saw a rank that ends: there is no other one

  using Words = std::array<std::uint64_t, 2>;  // why it has come, and a digest of what for

  // Throws where they have not come for the same.
  void check(const std::vector<Words>& all) {
    bool same = true;
    for (const Words& w : all) {
      same = same && w == all[0];
      is_over = is_over || w[0] == static_cast<std::uint64_t>(Meeting::failed) ||
                w[0] == static_cast<std::uint64_t>(Meeting::end);
    }
    for (const Words& w : all)
      if (w[0] == static_cast<std::uint64_t>(Meeting::failed)) throw OthersFailed();
    if (!same)
      throw Error(
          "the ranks do not see the same files; give them a folder that all of them share and that nobody changes");
  }

  void agree(Meeting meeting, std::uint64_t digest = 0) {
    const Words own = {static_cast<std::uint64_t>(meeting), digest};
    std::vector<Words> all(static_cast<std::size_t>(size));
    MPI_Allgather(own.data(), 2, MPI_UINT64_T, all.data(), 2, MPI_UINT64_T, MPI_COMM_WORLD);
    check(all);
  }
  MPI_Comm ending = MPI_COMM_NULL, node = MPI_COMM_NULL;
  MPI_Win window = MPI_WIN_NULL;

  // Does items until there are no more; take() gives the next.
  Contribution work_off(std::span<const Item> items, const std::function<Bytes(std::size_t)>& work,
                        const std::function<std::uint64_t(bool failed)>& take) const {
    Contribution own;
    for (std::uint64_t i = take(false); i != no_more; i = take(!own.failure.message.empty())) {
      set_item(items[i].name);
      const std::string where = size == 1 ? "" : "rank " + std::to_string(rank) + " at " + items[i].name + ": ";
      own.failure = failure_of(i, where, [&] {
        Bytes result = work(i);
        own.items.push_back(i);
        own.results.push_back(std::move(result));
      });
      set_item("");
    }
    return own;
  }

  // The rank that hands items out works itself, on a thread of its own: only this one talks to MPI.
  Contribution hand_out(std::span<const Item> items, const std::vector<std::size_t>& order,
                        const std::function<Bytes(std::size_t)>& work) const {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> finished{false};
    const auto take = [&](bool failed) -> std::uint64_t {
      if (failed) next = items.size();
      const std::size_t place = next.fetch_add(1);
      return place < items.size() ? order[place] : no_more;
    };
    Contribution own;
    if (size == 1) return work_off(items, work, take);
    std::thread worker([&] {
      own = work_off(items, work, take);
      finished = true;
    });
    for (int served = 1, idle = 0; served < size || !finished;) {
      int there = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, ask_tag, MPI_COMM_WORLD, &there, &status);
      if (there == 0) {  // long pieces of work are waited for with less effort
        std::this_thread::sleep_for(std::chrono::microseconds(++idle < 1000 ? 100 : 1000));
        continue;
      }
      idle = 0;
      int failed = 0;
      MPI_Recv(&failed, 1, MPI_INT, status.MPI_SOURCE, ask_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      const std::uint64_t item = take(failed != 0);
      if (item == no_more) ++served;
      MPI_Send(&item, 1, MPI_UINT64_T, status.MPI_SOURCE, answer_tag, MPI_COMM_WORLD);
    }
    worker.join();
    return own;
  }

  static Bytes broadcast(Bytes bytes, int from) {
    std::uint64_t count = bytes.size();
    MPI_Bcast(&count, 1, MPI_UINT64_T, from, MPI_COMM_WORLD);
    bytes.resize(count);
    constexpr std::uint64_t most = std::uint64_t{1} << 30;
    for (std::uint64_t first = 0; first < count; first += most)
      MPI_Bcast(bytes.data() + first, static_cast<int>(std::min(most, count - first)), MPI_BYTE, from, MPI_COMM_WORLD);
    return bytes;
  }

  std::vector<Contribution> exchange(const Contribution& own) const {
    const Bytes bytes = to_bytes(own);
    std::uint64_t count = bytes.size();
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(size));
    MPI_Allgather(&count, 1, MPI_UINT64_T, counts.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
    std::vector<Contribution> out;
    const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    if (total > INT_MAX) {  // more than one call may carry: one rank after the other
      for (int r = 0; r < size; ++r) out.push_back(from_bytes<Contribution>(broadcast(r == rank ? bytes : Bytes(), r)));
      return out;
    }
    std::vector<int> sizes(counts.begin(), counts.end()), places(counts.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), places.begin(), 0);
    Bytes all(total);
    MPI_Allgatherv(bytes.data(), sizes[static_cast<std::size_t>(rank)], MPI_BYTE, all.data(), sizes.data(),
                   places.data(), MPI_BYTE, MPI_COMM_WORLD);
    for (std::size_t r = 0; r < counts.size(); ++r)
      out.push_back(from_bytes<Contribution>(std::span(all).subspan(static_cast<std::size_t>(places[r]), counts[r])));
    return out;
  }
};

namespace {

// Where one machine has all ranks, Open MPI talks through memory, and its search for networks is a third of the start of three ranks.
// What the user chose stays; other libraries do not know these names.
void leave_networks_alone() {
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (ranks && here && std::string_view(ranks) == here) setenv("OMPI_MCA_pml", "ob1", 0);
}

}  // namespace

MpiCrew::MpiCrew(int& argc, char**& argv) : state_(std::make_unique<State>()) {
  leave_networks_alone();
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED)
    throw Error("this MPI allows no threads (MPI_THREAD_FUNNELED); use one that does");
  MPI_Comm_rank(MPI_COMM_WORLD, &state_->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &state_->size);
  MPI_Comm_dup(MPI_COMM_WORLD, &state_->ending);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &state_->node);
  MPI_Comm_rank(state_->node, &own_slot);
  MPI_Comm_size(state_->node, &slot_count);
  // One rank has the memory of all: their slots then lie one after the other.
  const MPI_Aint bytes = own_slot == 0 ? static_cast<MPI_Aint>(sizeof(Slot)) * slot_count : 0;
  MPI_Win_allocate_shared(bytes, sizeof(Slot), MPI_INFO_NULL, state_->node, &slots, &state_->window);
  MPI_Aint there = 0;
  int unit = 0;
  MPI_Win_shared_query(state_->window, 0, &there, &unit, &slots);
  slots[own_slot] = {getpid(), state_->rank, {}, {}, 0};
  CPU_ZERO(&slots[own_slot].cpus);
  (void)sched_getaffinity(0, sizeof(cpu_set_t), &slots[own_slot].cpus);
  MPI_Barrier(state_->node);
}

MpiCrew::~MpiCrew() {
  slot_count = 0;
  MPI_Win_free(&state_->window);
  MPI_Comm_free(&state_->node);
  MPI_Comm_free(&state_->ending);
  MPI_Finalize();
}

std::size_t MpiCrew::rank() const { return static_cast<std::size_t>(state_->rank); }
std::size_t MpiCrew::size() const { return static_cast<std::size_t>(state_->size); }

int MpiCrew::threads() const {
  cpu_set_t all = slots[0].cpus;
  for (int k = 1; k < slot_count; ++k) CPU_OR(&all, &all, &slots[k].cpus);
  return std::max(1, std::min(CPU_COUNT(&slots[own_slot].cpus), CPU_COUNT(&all) / slot_count));
}

std::vector<Bytes> MpiCrew::share(std::span<const Item> items, const std::function<Bytes(std::size_t)>& work) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return items[a].weight > items[b].weight; });
  const auto ask = [](bool failed) {
    const int word = failed ? 1 : 0;
    std::uint64_t item = 0;
    MPI_Send(&word, 1, MPI_INT, 0, ask_tag, MPI_COMM_WORLD);
    MPI_Recv(&item, 1, MPI_UINT64_T, 0, answer_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return item;
  };
  std::uint64_t digest = items.size();
  for (const Item& item : items) digest = random_bits(digest ^ std::hash<std::string>()(item.name), item.weight);
  state_->agree(Meeting::share, digest);
  const Contribution own =
      state_->rank == 0 ? state_->hand_out(items, order, work) : state_->work_off(items, work, ask);
  std::vector<Bytes> results(items.size());
  Failure first;
  for (Contribution& c : state_->exchange(own)) {
    if (!c.failure.message.empty() && c.failure.item < first.item) first = std::move(c.failure);
    for (std::size_t k = 0; k < c.items.size(); ++k) results[c.items[k]] = std::move(c.results[k]);
  }
  if (!first.message.empty()) throw Error(first.message);
  return results;
}

void MpiCrew::together(const std::function<void()>& own) {
  state_->agree(Meeting::together);
  const std::string where = rank() == 0 ? "" : "rank " + std::to_string(rank()) + ": ";
  const Contribution mine{{}, {}, failure_of(rank(), where, own)};
  for (const Contribution& c : state_->exchange(mine))
    if (!c.failure.message.empty()) throw Error(c.failure.message);
}

void MpiCrew::exchange(std::size_t to, std::span<const std::byte> out, std::size_t from, std::span<std::byte> in) {
  // Both in parts that an int counts; a side that is done sends and receives nothing.
  constexpr std::size_t most = std::size_t{1} << 30;
  while (!out.empty() || !in.empty()) {
    const std::size_t sent = std::min(out.size(), most), received = std::min(in.size(), most);
    MPI_Sendrecv(out.data(), static_cast<int>(sent), MPI_BYTE, sent == 0 ? MPI_PROC_NULL : static_cast<int>(to),
                 exchange_tag, in.data(), static_cast<int>(received), MPI_BYTE,
                 received == 0 ? MPI_PROC_NULL : static_cast<int>(from), exchange_tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    out = out.subspan(sent), in = in.subspan(received);
  }
}

void MpiCrew::reduce_as_it_likes(std::span<std::byte> values, std::size_t unit, const Add& add) {
  if (values.size() / unit > INT_MAX) throw Error("more than 2^31 pieces in one MPI_Allreduce");
  MPI_Datatype piece;
  MPI_Type_contiguous(static_cast<int>(unit), MPI_BYTE, &piece);
  MPI_Type_commit(&piece);
  adding = &add, adding_unit = unit;
  MPI_Op operation;
  MPI_Op_create(
      [](void* in, void* inout, int* count, MPI_Datatype*) {
        const std::size_t bytes = static_cast<std::size_t>(*count) * adding_unit;
        (*adding)({static_cast<const std::byte*>(in), bytes}, {static_cast<std::byte*>(inout), bytes});
      },
      1, &operation);
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size() / unit), piece, operation, MPI_COMM_WORLD);
  MPI_Op_free(&operation);
  MPI_Type_free(&piece);
}

bool MpiCrew::any(bool own) {
  int flag = own ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &flag, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return flag != 0;
}

void MpiCrew::at(const std::string& what) { set_item(what); }

Bytes MpiCrew::from_first(Bytes bytes) {
  state_->agree(Meeting::from_first);
  return State::broadcast(std::move(bytes), 0);
}

int MpiCrew::conclude(int status, std::string failure, bool is_own,
                      const std::function<void(const std::string&)>& say) {
  // Ranks that wait in a meeting hear there that this one ends.
  const State::Words words = {static_cast<std::uint64_t>(failure.empty() ? Meeting::end : Meeting::failed), 0};
  std::vector<State::Words> all_words(size());
  const int own[2] = {failure.empty() ? 0 : is_own ? 1 : 2, status};
  std::vector<int> all(2 * size());
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  if (!state_->is_over)
    MPI_Iallgather(words.data(), 2, MPI_UINT64_T, all_words.data(), 2, MPI_UINT64_T, MPI_COMM_WORLD, &requests[0]);
  MPI_Iallgather(own, 2, MPI_INT, all.data(), 2, MPI_INT, state_->ending, &requests[1]);
  const auto start = std::chrono::steady_clock::now();
  for (int there = 0; there == 0;) {
    MPI_Testall(2, requests, &there, MPI_STATUSES_IGNORE);
    if (there == 0 && !failure.empty() && std::chrono::steady_clock::now() - start > patience) {
      say("rank " + std::to_string(rank()) + ": " + failure);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (there == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  // Of several the first with a failure of its own; one that says only that another failed is not asked.
  std::size_t first = size();
  for (std::size_t r = size(); r-- > 0;)
    if (all[2 * r] == 1) first = r;
  bool failed = false;
  for (std::size_t r = 0; r < size(); ++r) failed = failed || all[2 * r] != 0;
  if (!failed) return all[1];
  if (first == rank()) say(first == 0 ? failure : "rank " + std::to_string(first) + ": " + failure);
  return 2;
}

void MpiCrew::say_who_died() noexcept {
  if (slot_count == 0) return;
  slots[own_slot].was_told = 1;
  for (int k = 0; k < own_slot && k < slot_count; ++k)
    if (is_alive(slots[k])) return;  // that one says it
  for (int k = 0; k < slot_count; ++k) {
    if (is_alive(slots[k]) || slots[k].was_told != 0) continue;
    narrow::cluster::say("narrow-mpi: rank "), narrow::cluster::say(slots[k].rank);
    narrow::cluster::say(slots[k].item[0] != 0 ? " died at " : " died between two pieces of work");
    narrow::cluster::say(slots[k].item),
        narrow::cluster::say("; the others stop, and files that were begun are not there\n");
  }
}

}  // namespace narrow::cluster
