// Ranks that are threads: messages over queues in memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "narrow/cluster/messages.hpp"

namespace test {

struct Post {
  std::mutex lock;
  std::condition_variable arrived;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<std::vector<std::byte>>> queues;  // (from, to)
  std::size_t bytes = 0;
};

class Mailbox : public narrow::cluster::Messages {
 public:
  Mailbox(std::size_t rank, std::size_t size, Post& post) : rank_(rank), size_(size), post_(post) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  void exchange(std::size_t to, std::span<const std::byte> out, std::size_t from, std::span<std::byte> in) override {
    std::unique_lock hold(post_.lock);
    if (!out.empty()) {
      post_.queues[{rank_, to}].emplace_back(out.begin(), out.end());
      post_.bytes += out.size();
      post_.arrived.notify_all();
    }
    if (in.empty()) return;
    auto& queue = post_.queues[{from, rank_}];
    post_.arrived.wait(hold, [&] { return !queue.empty(); });
    if (queue.front().size() != in.size()) throw narrow::Error("a message of another length");
    std::copy(queue.front().begin(), queue.front().end(), in.begin());
    queue.pop_front();
  }

 private:
  std::size_t rank_, size_;
  Post& post_;
};

// work(messages) on so many threads; returns the bytes that were sent. What was sent was taken.
inline std::size_t on_ranks(std::size_t ranks, const std::function<void(narrow::cluster::Messages&)>& work) {
  Post post;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      Mailbox messages(r, ranks, post);
      work(messages);
    });
  for (std::thread& t : threads) t.join();
  for (const auto& [pair, queue] : post.queues)
    if (!queue.empty()) throw narrow::Error("a message was left");
  return post.bytes;
}

}  // namespace test
