// A crew of MPI ranks: what is said by one, how the others hear of a failure, and what happens when one of them dies.
#pragma once

#include <memory>

#include "narrow/cluster/crew.hpp"

namespace narrow::cluster {

class MpiCrew : public Crew, public Messages {
 public:
  MpiCrew(int& argc, char**& argv);
  ~MpiCrew() override;
  MpiCrew(const MpiCrew&) = delete;
  MpiCrew& operator=(const MpiCrew&) = delete;

  std::size_t rank() const override;
  std::size_t size() const override;
  std::vector<Bytes> share(std::span<const Item> items, const std::function<Bytes(std::size_t)>& work) override;
  Bytes from_first(Bytes bytes) override;
  void together(const std::function<void()>& own) override;
  bool any(bool own) override;
  void at(const std::string& what) override;

  Messages& messages() override { return *this; }
  void exchange(std::size_t to, std::span<const std::byte> out, std::size_t from, std::span<std::byte> in) override;
  void reduce_as_it_likes(std::span<std::byte> values, std::size_t unit, const Add& add) override;

  int threads() const;  // as many as leave each rank of this node its part of the CPUs that they may use

  // Thrown where another rank has failed, and will say so.
  struct OthersFailed : Error {
    OthersFailed() : Error("another rank failed") {}
  };

  // The end of every rank: returns the status of the whole, which is that of rank 0, or 2 where any rank failed. `say`
  // is called on one rank, the first of those with a failure of their own. Where the others neither end nor meet this
  // rank for some seconds, it says its failure and ends them all.
  int conclude(int status, std::string failure, bool is_own, const std::function<void(const std::string&)>& say);

  // To be called by a handler of the signal that MPI sends to all when a rank has died: of those left on the node the
  // first says who died, and at what. Async-signal-safe.
  static void say_who_died() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace narrow::cluster
