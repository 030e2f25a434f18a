// Eigen with Number<F> as scalar: the bits of a plain loop where the order of operations is defined, else a proved
// bound.
#include "narrow/eigen.hpp"

#include <Eigen/Cholesky>

#include "support/inputs.hpp"
#include "support/mismatches.hpp"

using narrow::Number;
using narrow::operator""_fmt;

namespace {

using Half = Number<"fp16"_fmt>;
using Matrix = Eigen::Matrix<Half, Eigen::Dynamic, Eigen::Dynamic>;
using Vector = Eigen::Matrix<Half, Eigen::Dynamic, 1>;
using Doubles = Eigen::MatrixXd;

// Values in [-1, 1), multiples of 2^-10.
Half draw(std::uint64_t seed, Eigen::Index i) {
  return static_cast<double>(test::mix(seed + static_cast<std::uint64_t>(i)) >> 53) * 0x1p-10 - 1;
}
Matrix random_matrix(std::uint64_t seed, Eigen::Index rows, Eigen::Index cols) {
  Matrix m(rows, cols);
  for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = draw(seed, i);
  return m;
}
Doubles exact(const Matrix& m) {
  return m.unaryExpr([](Half x) { return static_cast<double>(x); });
}

// First product, then each next one added: the order of Eigen's reductions and coefficient products of dynamic size.
template <class A, class B>
Half plain_dot(const A& a, const B& b) {
  Half sum = a(0) * b(0);
  for (Eigen::Index i = 1; i < a.size(); ++i) sum += a(i) * b(i);
  return sum;
}

// u = 2^-11 is the largest relative error of one rounding. A sum of n products in any order has an error of at most
// gamma_n = n u / (1 - n u) times the sum of their magnitudes (Higham, Accuracy and Stability of Numerical Algorithms,
// 2nd edition, section 3.1). A product below 2^-14 is subnormal and adds at most half a quantum, 2^-25.
double gamma(Eigen::Index n) {
  const double nu = static_cast<double>(n) * 0x1p-11;
  return nu / (1 - nu);
}
constexpr double subnormal_error = 0x1p-25;

void check_within(const Doubles& got, const Doubles& want, const Doubles& bound) {
  CHECK(((got - want).array().abs() <= bound.array()).all());
}

}  // namespace

TEST_CASE("arith: an Eigen dot product and norm have the bits of a plain loop") {
  for (const Eigen::Index n : {1, 2, 3, 7, 16, 33, 100}) {
    const Vector a = random_matrix(1, n, 1), b = random_matrix(2, n, 1);
    CAPTURE(n);
    CHECK(a.dot(b).code() == plain_dot(a, b).code());
    CHECK(a.squaredNorm().code() == plain_dot(a, a).code());
    CHECK(a.norm().code() == sqrt(plain_dot(a, a)).code());
  }
}

TEST_CASE("arith: an Eigen coefficient product has the bits of a plain loop") {
  for (const Eigen::Index n : {1, 2, 5, 9, 20}) {
    const Matrix a = random_matrix(3, n, n + 1), b = random_matrix(4, n + 1, n);
    const Matrix c = a.lazyProduct(b);
    CAPTURE(n);
    for (Eigen::Index i = 0; i < n; ++i)
      for (Eigen::Index j = 0; j < n; ++j) CHECK(c(i, j).code() == plain_dot(a.row(i), b.col(j)).code());
  }
}

TEST_CASE("arith: a blocked Eigen product is within the bound of any order of summation") {
  const Eigen::Index n = 40, k = 64;
  const Matrix a = random_matrix(5, n, k), b = random_matrix(6, k, n);
  const Matrix c = a * b;
  const Doubles magnitude = exact(a).cwiseAbs().lazyProduct(exact(b).cwiseAbs());
  check_within(exact(c), exact(a).lazyProduct(exact(b)),
               (gamma(k) * magnitude).array() + static_cast<double>(k) * subnormal_error);
}

// Higham, theorem 10.3: the computed factor has |A - L L^T| <= gamma_{n+1} |L| |L^T|, in any order of operations.
TEST_CASE("arith: an Eigen LLT factor of half precision gives the matrix back within its bound") {
  const Eigen::Index n = 12;
  const Matrix r = random_matrix(7, n, n);
  Matrix a = r * r.transpose();
  a = (a + a.transpose().eval()) * Half(0.5);
  for (Eigen::Index i = 0; i < n; ++i) a(i, i) += Half(n);
  const Eigen::LLT<Matrix> llt(a);
  REQUIRE(llt.info() == Eigen::Success);
  const Doubles l = exact(Matrix(llt.matrixL()));
  const Doubles bound = gamma(n + 1) * l.cwiseAbs().lazyProduct(l.cwiseAbs().transpose());
  check_within(l.lazyProduct(l.transpose()), exact(a), bound.array() + static_cast<double>(n) * subnormal_error);
}

TEST_CASE("arith: Eigen refuses to factor an indefinite matrix of half precision") {
  Matrix a = Matrix::Identity(3, 3);
  a(1, 1) = -1;
  CHECK(Eigen::LLT<Matrix>(a).info() == Eigen::NumericalIssue);
}

TEST_CASE("arith: Eigen works with numbers of one byte and of eight") {
  using E4m3 = Number<"e4m3"_fmt>;
  using Fp64 = Number<"fp64"_fmt>;
  Eigen::Matrix<E4m3, 2, 2> small;
  small << 1, 2, 3, 4;
  CHECK((small * small)(1, 1).code() == E4m3(22).code());
  CHECK(small.maxCoeff().code() == E4m3(4).code());
  const Eigen::VectorXd x = Eigen::VectorXd::LinSpaced(9, 0.1, 0.9);
  const Eigen::Matrix<Fp64, Eigen::Dynamic, 1> y = x.unaryExpr([](double v) { return Fp64(v); });
  double sum = x(0) * x(0);
  for (Eigen::Index i = 1; i < x.size(); ++i) sum += x(i) * x(i);
  CHECK(y.squaredNorm().code() == test::bits(sum));
  CHECK(y.norm().code() == test::bits(std::sqrt(sum)));
}
