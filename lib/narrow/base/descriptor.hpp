// An open file, closed when its holder goes.
#pragma once

#include <unistd.h>

#include <utility>

namespace narrow {

class Descriptor {
 public:
  explicit Descriptor(int file = -1) : file_(file) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }
  int release() { return std::exchange(file_, -1); }  // the caller closes it
  void reset(int file = -1) {
    if (file_ >= 0) close(file_);
    file_ = file;
  }

 private:
  int file_;
};

}  // namespace narrow
