#include "narrow/tensor/inflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>

#include "narrow/base/error.hpp"
#include "narrow/tensor/crc32.hpp"
#include "narrow/tensor/file_text.hpp"
#include "narrow/text/quote.hpp"

namespace narrow {

namespace {

[[noreturn]] void fail(const MappedFile& file, const ZipMember& member, const std::string& what) {
  throw Error(quote_path(file.path()) + ": member " + quote(member.name) + ": " + what);
}

void check_range(const MappedFile& file, const ZipMember& member, std::uint64_t offset, std::size_t count) {
  if (offset > member.size || count > member.size - offset) fail(file, member, "read beyond its end");
}

class StoredMember : public ByteSource {
 public:
  StoredMember(std::shared_ptr<const MappedFile> file, ZipMember member)
      : file_(std::move(file)),
        member_(std::move(member)),
        bytes_(file_->bytes().subspan(member_.begin, member_.size)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    check_range(*file_, member_, offset, out.size());
    const std::span<const std::byte> bytes = mapped();
    check();
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
  }
  std::span<const std::byte> mapped() const override {
    std::call_once(checked_, [&] {
      file_->check();
      if (crc32_of(0, bytes_) != member_.crc) fail(*file_, member_, "the checksum does not match; the file is damaged");
    });
    return bytes_;
  }
  void check() const override { file_->check(); }

 private:
  std::shared_ptr<const MappedFile> file_;
  ZipMember member_;
  std::span<const std::byte> bytes_;
  mutable std::once_flag checked_;
};

// A place in a deflated stream: how far its output has come, and the checksum of all of it.
struct Place {
  z_stream stream{};
  std::uint64_t at = 0;
  std::uint32_t crc = 0;

  Place() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();  // negative: no header, as in zip
  }
  Place(const Place& other) : at(other.at), crc(other.crc) {
    if (inflateCopy(&stream, const_cast<z_stream*>(&other.stream)) != Z_OK) throw std::bad_alloc();
  }
  Place& operator=(const Place&) = delete;
  ~Place() { inflateEnd(&stream); }
};

class DeflatedMember : public ByteSource {
 public:
  DeflatedMember(std::shared_ptr<const MappedFile> file, ZipMember member)
      : file_(std::move(file)), member_(std::move(member)) {}

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    check_range(*file_, member_, offset, out.size());
    const std::lock_guard lock(mutex_);
    file_->check();
    go_to(offset);
    inflate_into(out);
    if (now_->at == member_.size) check_end();
  }

 private:
  static constexpr std::size_t most_saved = 8;  // of about 40 KiB each
  static constexpr std::uint64_t spacing = std::uint64_t{1} << 21;

  // The current place when it is not behind; else the last saved one before offset; then inflate and drop.
  void go_to(std::uint64_t offset) const {
    const auto after =
        std::find_if(saved_.begin(), saved_.end(), [&](const auto& place) { return place->at > offset; });
    const Place* saved = after == saved_.begin() ? nullptr : std::prev(after)->get();
    const std::uint64_t nearest = saved != nullptr ? saved->at : 0;
    if (!now_ || now_->at > offset || now_->at < nearest) {
      now_ = saved != nullptr ? std::make_unique<Place>(*saved) : std::make_unique<Place>();
      if (saved == nullptr) saved_.clear();  // what is far ahead is of no use on the way there
    }
    std::array<std::byte, 65536> dropped;
    while (now_->at < offset)
      inflate_into(std::span(dropped).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(dropped.size(), offset - now_->at))));
  }

  void inflate_into(std::span<std::byte> out) const {
    constexpr std::size_t step = std::size_t{1} << 16;
    while (!out.empty()) {
      const std::span<std::byte> piece = out.first(std::min(step, out.size()));
      inflate_piece(piece);
      now_->crc = crc32_of(now_->crc, piece);
      now_->at += piece.size();
      out = out.subspan(piece.size());
      save();
    }
  }

  void inflate_piece(std::span<std::byte> out) const {
    z_stream& stream = now_->stream;
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    while (stream.avail_out > 0) {
      feed();
      const uInt left = stream.avail_out;
      const int status = inflate(&stream, Z_NO_FLUSH);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      const bool stuck = stream.avail_out == left && stream.avail_in == 0 && stream.total_in >= member_.compressed;
      if (status == Z_STREAM_END && stream.avail_out == 0) return;
      if (status == Z_STREAM_END || stuck)
        fail(*file_, member_,
             "its data end after " + std::to_string(now_->at + out.size() - stream.avail_out) + " of " +
                 std::to_string(member_.size) + " bytes");
      if (status != Z_OK && status != Z_BUF_ERROR)
        fail(*file_, member_,
             "damaged deflated data near byte " + std::to_string(member_.begin + stream.total_in) + " of the file");
    }
  }

  // avail_in is 32 bits wide: a large member is fed in pieces.
  void feed() const {
    z_stream& stream = now_->stream;
    if (stream.avail_in > 0) return;
    const std::span<const std::byte> rest =
        file_->bytes().subspan(member_.begin, member_.compressed).subspan(stream.total_in);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest.data()));
    stream.avail_in = static_cast<uInt>(std::min<std::size_t>(rest.size(), std::size_t{1} << 20));
  }

  // The last places, so that a thread that asks a little late does not start anew.
  void save() const {
    if (!saved_.empty() && now_->at < saved_.back()->at + spacing) return;
    if (now_->at < spacing || now_->at == member_.size) return;
    if (saved_.size() == most_saved) saved_.pop_front();
    saved_.push_back(std::make_unique<Place>(*now_));
  }

  // The declared size was reached: the stream must end here, too, and with the declared checksum.
  void check_end() const {
    std::byte more{};
    z_stream& stream = now_->stream;
    stream.next_out = reinterpret_cast<Bytef*>(&more);
    stream.avail_out = 1;
    int status = Z_OK;
    // At least once, even when all input is used: the end of the last block may not have been looked at.
    do {
      feed();
      status = inflate(&stream, Z_NO_FLUSH);
    } while (status == Z_OK && stream.avail_out == 1);
    const std::uint32_t crc = now_->crc;
    const bool longer = stream.avail_out == 0, all_used = stream.total_in == member_.compressed;
    now_.reset();
    saved_.clear();  // who is done with one of a million members must not keep its windows
    if (longer)
      fail(*file_, member_, "inflates to more than the " + std::to_string(member_.size) + " bytes that it declares");
    if (status != Z_STREAM_END || !all_used) fail(*file_, member_, "its deflated data do not end where they should");
    if (crc != member_.crc) fail(*file_, member_, "the checksum does not match; the file is damaged");
  }

  std::shared_ptr<const MappedFile> file_;
  ZipMember member_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Place> now_;
  mutable std::deque<std::unique_ptr<Place>> saved_;
};

class Skipping : public ByteSource {
 public:
  Skipping(std::shared_ptr<const ByteSource> source, std::uint64_t skip) : source_(std::move(source)), skip_(skip) {}
  void read(std::uint64_t offset, std::span<std::byte> out) const override { source_->read(skip_ + offset, out); }
  std::span<const std::byte> mapped() const override {
    const std::span<const std::byte> all = source_->mapped();
    return all.size() < skip_ ? std::span<const std::byte>() : all.subspan(skip_);
  }
  void check() const override { source_->check(); }

 private:
  std::shared_ptr<const ByteSource> source_;
  std::uint64_t skip_;
};

}  // namespace

std::shared_ptr<const ByteSource> member_source(std::shared_ptr<const MappedFile> file, const ZipMember& member) {
  if (!member.deflated) return std::make_shared<StoredMember>(std::move(file), member);
  return std::make_shared<DeflatedMember>(std::move(file), member);
}

std::shared_ptr<const ByteSource> skip_bytes(std::shared_ptr<const ByteSource> source, std::uint64_t skip) {
  return std::make_shared<Skipping>(std::move(source), skip);
}

}  // namespace narrow
