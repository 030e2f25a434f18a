// C++ exceptions for WebAssembly: Debian's libc++abi for wasm32-wasi is built without them, so what the compiler calls
// for throw and catch is here. The compiler's side (LLVM, -fwasm-exceptions): a catch puts the number of its landing
// pad and the address of its table (LSDA) into __wasm_lpad_context, calls _Unwind_CallPersonality, and reads the
// selector, which says which catch clause is meant; 0 is none: it cleans up and throws on.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <typeinfo>

namespace __cxxabiv1 {

// As libc++abi lays out its type_info: whether a handler of this type catches what was thrown, and at which address.
class __shim_type_info : public std::type_info {
 public:
  ~__shim_type_info() override;
  virtual void noop1() const;
  virtual void noop2() const;
  virtual bool can_catch(const __shim_type_info* thrown, void*& adjusted) const = 0;
};

}  // namespace __cxxabiv1

namespace {

using TypeInfo = __cxxabiv1::__shim_type_info;

// Lies before every thrown object; wasm carries its address.
struct alignas(16) Thrown {
  const TypeInfo* type;
  void* (*destroy)(void*);  // destructors return this in wasm
  void* adjusted;           // the object as its handler sees it
  Thrown* previous;         // in the stack of caught ones
  int handlers;             // negative: thrown again by its handler
};

Thrown* caught = nullptr;

void* object_of(Thrown* thrown) { return thrown + 1; }
Thrown* header_of(void* object) { return static_cast<Thrown*>(object) - 1; }

// LEB128 as DWARF writes it.
std::uintptr_t read_unsigned(const std::uint8_t*& at) {
  std::uintptr_t value = 0;
  for (int shift = 0;; shift += 7) {
    const std::uint8_t byte = *at++;
    value |= static_cast<std::uintptr_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
}
std::intptr_t read_signed(const std::uint8_t*& at) {
  std::uintptr_t value = 0;
  int shift = 0;
  std::uint8_t byte = 0;
  do {
    byte = *at++;
    value |= static_cast<std::uintptr_t>(byte & 0x7F) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0);
  if (shift < 32 && (byte & 0x40) != 0) value |= ~std::uintptr_t{0} << shift;
  return static_cast<std::intptr_t>(value);
}

// The table of a function: a header, (landing pad, action) for each call site, chains of actions, and, growing
// downwards from its end, the types that are caught (each an address; null is catch (...)).
std::uintptr_t selector(const std::uint8_t* table, std::uintptr_t pad, Thrown& thrown) {
  constexpr std::uint8_t omitted = 0xFF;
  const std::uint8_t* at = table;
  if (*at++ != omitted) std::abort();  // a base of landing pads: wasm has none
  const TypeInfo* const* types = nullptr;
  if (*at++ != omitted) {
    const std::uintptr_t length = read_unsigned(at);
    types = reinterpret_cast<const TypeInfo* const*>(at + length);
  }
  ++at;  // how call sites are written: always LEB128
  const std::uintptr_t length = read_unsigned(at);
  const std::uint8_t* actions = at + length;
  std::uintptr_t action = 0;
  for (std::uintptr_t k = 0; k <= pad; ++k) {
    (void)read_unsigned(at);
    action = read_unsigned(at);
  }
  for (const std::uint8_t* next = action == 0 ? nullptr : actions + action - 1; next != nullptr;) {
    const std::intptr_t type = read_signed(next);
    const std::uint8_t* link = next;
    const std::intptr_t offset = read_signed(next);
    if (type > 0) {
      const TypeInfo* handler = types[-type];
      void* adjusted = object_of(&thrown);
      if (handler == nullptr || handler->can_catch(thrown.type, adjusted)) {
        thrown.adjusted = adjusted;
        return static_cast<std::uintptr_t>(type);
      }
    }
    next = offset == 0 ? nullptr : link + offset;
  }
  return 0;
}

}  // namespace

extern "C" {

struct LandingPad {
  std::uintptr_t pad;
  const std::uint8_t* table;
  std::uintptr_t selector;
};
LandingPad __wasm_lpad_context;

int _Unwind_CallPersonality(void* thrown) {
  LandingPad& context = __wasm_lpad_context;
  context.selector = selector(context.table, context.pad, *static_cast<Thrown*>(thrown));
  return 0;
}

void* __cxa_allocate_exception(std::size_t size) noexcept {
  void* place = std::malloc(sizeof(Thrown) + size);
  if (place == nullptr) std::abort();
  return object_of(new (place) Thrown{});
}
void __cxa_free_exception(void* object) noexcept { std::free(header_of(object)); }

[[noreturn]] void __cxa_throw(void* object, const std::type_info* type, void* (*destroy)(void*)) {
  Thrown* thrown = header_of(object);
  *thrown = {static_cast<const TypeInfo*>(type), destroy, object, nullptr, 0};
  __builtin_wasm_throw(0, thrown);
}

void* __cxa_get_exception_ptr(void* thrown) noexcept { return static_cast<Thrown*>(thrown)->adjusted; }

void* __cxa_begin_catch(void* place) noexcept {
  auto* thrown = static_cast<Thrown*>(place);
  thrown->handlers = (thrown->handlers < 0 ? -thrown->handlers : thrown->handlers) + 1;
  if (thrown != caught) {
    thrown->previous = caught;
    caught = thrown;
  }
  return thrown->adjusted;
}

void __cxa_end_catch() {
  Thrown* thrown = caught;
  if (thrown == nullptr) return;
  if (thrown->handlers < 0) {  // it was thrown again: whoever catches it next owns it
    if (++thrown->handlers == 0) caught = thrown->previous;
    return;
  }
  if (--thrown->handlers > 0) return;
  caught = thrown->previous;
  if (thrown->destroy != nullptr) thrown->destroy(object_of(thrown));
  std::free(thrown);
}

[[noreturn]] void __cxa_rethrow() {
  if (caught == nullptr) std::terminate();
  caught->handlers = -caught->handlers;
  __builtin_wasm_throw(0, caught);
}

}  // extern "C"

// libc++abi's new, built without exceptions, ends the program where memory is short.
void* operator new(std::size_t size) {
  if (void* place = std::malloc(size == 0 ? 1 : size)) return place;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
