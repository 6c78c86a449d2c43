// The numbers of impl/_exact/elementary/_coefficients.py that powers need: impl/tests/native/
// test_powers.py compares them.
#pragma once

namespace samebits {
namespace {

// A constant as the sum of two floats.
struct Constant {
  double high, low;
};
// A number c, the greatest m whose c * m lies too far below 1, and log(c).
struct Factor {
  double factor, bound;
  Constant logarithm;
};

constexpr double kLog2E = 1.4426950408889634;
// log(2) is a sum of two floats of 42 bits, whose products with an exponent are exact, and a rest.
constexpr double kLn2High = 0.6931471805598903;
constexpr double kLn2Low = 5.4979230187085024e-14;
constexpr double kLn2Rest = -1.3124698417785255e-27;
constexpr Constant kPair2_3 = {0.6666666666666666, 3.700743415417188e-17};
// log(m) after its second term, and exp(x) after its third one.
constexpr double kPairLog[] = {
    0.4,
    0.2857142857142857,
    0.22222222222217822,
    0.1818181820103888,
    0.15384577435909064,
    0.13367856788138935,
};
constexpr double kPairExp[] = {
    0.16666666666666666,
    0.041666666666666664,
    0.008333333333333375,
    0.0013888888888888924,
    0.00019841269830235173,
    2.4801587292391773e-05,
    2.755825976832644e-06,
    2.7558103009083773e-07,
};
constexpr Factor kFactors[] = {
    {1.375, 0.0, {0.3184537311185346, 2.7114779367326236e-17}},
    {1.28125, 0.7529, {0.24783616390458127, -1.2432209578702523e-17}},
    {1.1875, 0.8101, {0.17185025692665923, -6.0224538210113705e-18}},
    {1.09375, 0.8767, {0.08961215868968714, -5.4268129336647135e-18}},
    {1.0, 0.9552, {0.0, 0.0}},
    {0.90625, 1.0492, {-0.09844007281325252, 4.439009633675136e-18}},
    {0.8125, 1.1636, {-0.2076393647782445, -1.2053243216686129e-17}},
    {0.71875, 1.3061, {-0.33024168687057687, 1.0828321637483858e-17}},
};
// 2**(i / 8) for i from 1 to 7.
constexpr Constant kRoots[] = {
    {1.0905077326652577, -3.046782079812471e-17},
    {1.189207115002721, 3.982015231465646e-17},
    {1.2968395546510096, 2.5382502794888315e-17},
    {1.4142135623730951, -9.667293313452913e-17},
    {1.5422108254079407, 7.949834809697621e-17},
    {1.681792830507429, 8.199010020581497e-17},
    {1.8340080864093424, 3.283107224245627e-17},
};

}  // namespace
}  // namespace samebits
