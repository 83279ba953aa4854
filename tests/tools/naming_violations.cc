// Read by check_tidy_test.py, never compiled into anything. A line that ends in "want: CHECKS"
// must be reported by those checks; no other line may be reported. Every naming rule of .clang-tidy
// is broken here and kept here, and every other family of checks is broken once.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#define BAD_MACRO 1       // want: readability-identifier-naming
#define ULMUS_bad_case 1  // want: readability-identifier-naming
#define ULMUS_GOOD_MACRO 1

namespace BadNamespace {  // want: readability-identifier-naming
int inside();
}  // namespace BadNamespace
namespace good_namespace {

class bad_class {  // want: readability-identifier-naming
  int member_ = 0;
};
struct bad_struct {  // want: readability-identifier-naming
  int member = 0;
};
union bad_union {  // want: readability-identifier-naming
  int a;
  float b;
};
enum class bad_enum { kOne };  // want: readability-identifier-naming
enum class GoodEnum {
  BadEnumerator,    // want: readability-identifier-naming
  kbad_enumerator,  // want: readability-identifier-naming
  badEnumerator,    // want: readability-identifier-naming
  kGoodEnumerator,
};
using bad_alias = int;    // want: readability-identifier-naming
typedef int bad_typedef;  // want: readability-identifier-naming
using GoodAlias = int;
template <class T>
concept bad_concept = sizeof(T) == 1;  // want: readability-identifier-naming
template <class T>
concept GoodConcept = sizeof(T) == 1;
template <class bad_type>  // want: readability-identifier-naming
bad_type bad_type_parameter();
template <int bad_value>  // want: readability-identifier-naming
int bad_value_parameter();
template <class Element, int Width, int kDepth>
Element good_parameters();

void BadFunction();                   // want: readability-identifier-naming
void badFunction();                   // want: readability-identifier-naming
void good_function(int BadParameter,  // want: readability-identifier-naming
                   int good_parameter);

constexpr int BadConstant = 1;        // want: readability-identifier-naming
constexpr int kbad_constant = 1;      // want: readability-identifier-naming
const std::string BadGlobal = "x";    // want: readability-identifier-naming
const std::string kbad_global = "x";  // want: readability-identifier-naming
constexpr int kGoodConstant = 1;

class GoodClass {
 public:
  static constexpr int BadClassConstexpr = 1;     // want: readability-identifier-naming
  static constexpr int kbad_class_constexpr = 1;  // want: readability-identifier-naming
  static const int BadClassConstant = 1;          // want: readability-identifier-naming
  static const int kbad_class_constant = 1;       // want: readability-identifier-naming
  static constexpr int kGoodClassConstant = 1;
  void BadMethod();  // want: readability-identifier-naming
  int good_method() const { return good_member_ + bad_member + badMember_; }
  using value_type = int;

 protected:
  int bad_protected = 0;  // want: readability-identifier-naming
  int BadProtected_ = 0;  // want: readability-identifier-naming

 private:
  void BadPrivateMethod();  // want: readability-identifier-naming
  int bad_member = 0;       // want: readability-identifier-naming
  int badMember_ = 0;       // want: readability-identifier-naming
  int good_member_ = 0;
};

struct GoodStruct {
  int BadPublicMember = 0;  // want: readability-identifier-naming
  int bad_suffix_ = 0;      // want: readability-identifier-naming
  int good_public_member = 0;
};

inline int locals() {
  const int BadLocal = 1;              // want: readability-identifier-naming
  int badLocal = 2;                    // want: readability-identifier-naming
  constexpr int BadLocalConst = 3;     // want: readability-identifier-naming
  constexpr int kbad_local_const = 3;  // want: readability-identifier-naming
  static const int BadStatic = 4;      // want: readability-identifier-naming
  static const int kbad_static = 4;    // want: readability-identifier-naming
  const int good_local = 5;
  constexpr int kGoodLocal = 6;
  badLocal += BadLocal + BadLocalConst + kbad_local_const + BadStatic + kbad_static;
  return badLocal + good_local + kGoodLocal;
}

// The checks that are not about names.

int mutable_global = 0;  // want: cppcoreguidelines-avoid-non-const-global-variables

struct ImplicitConversion {
  ImplicitConversion(int value) : value(value) {}  // want: google-explicit-constructor
  int value;
};

struct NoVirtualDestructor {  // want: cppcoreguidelines-virtual-class-destructor
  virtual void method() = 0;
};

inline int casts_and_widths(double x) {
  const long wide = 1;      // want: google-runtime-int
  const int cast = (int)x;  // want: google-readability-casting
  return cast + static_cast<int>(wide);
}

inline std::size_t moved_from(std::string text) {
  const std::string other = std::move(text);
  return text.size() + other.size();  // want: bugprone-use-after-move,clang-analyzer-cplusplus.Move
}

inline std::size_t copied(const std::vector<std::string>& words) {
  std::size_t total = 0;
  for (const std::string word : words) {  // want: performance-for-range-copy
    total += word.size();
  }
  return total;
}

inline int null_read() {
  const int* pointer = nullptr;
  return *pointer;  // want: clang-analyzer-core.NullDereference
}

// clang-format off
inline int sixty_one_lines(int x) {  // want: readability-function-size
  x += 1; x += 2;

























































  return x;

}
// clang-format on

inline std::int64_t sixty_lines(std::int64_t x) { return x; }

}  // namespace good_namespace
