"""Tests of scikit-learn that do not apply to the estimators of this package, and why.

A key is the name of a test as pytest writes it, and a star in it stands for any text. Without parameters
it names all cases of the test.
"""

from __future__ import annotations

L1_PENALTY = (
    '`penalty="l1"` goes with `loss="hinge"` here, a linear program; LIBLINEAR has it with the '
    "squared hinge alone"
)
"""Reason of tests of the l1 norm."""

CRAMMER_SINGER = '`multi_class="crammer_singer"` is not offered'
"""Reason of tests of that problem of several classes."""

DEPRECATION_REASON = "`probability` is not deprecated here: it is scikit-learn's own calibration"
"""Reason of tests of warnings about LIBSVM's probabilities."""

PRIVATE_REASON = "changes or reads a private attribute of scikit-learn's class"
"""Reason of tests of what is inside."""

TWO_POINTS = "calibration needs two points of each class, and there is one: `fit` says so"
"""Reason of tests of probabilities on very few points."""

FAILURE_REASONS: dict[str, str] = {
    "test_svm.py::test_svr_errors": "a kernel of a wrong shape is an error of `fit`",
    "test_svm.py::test_negative_weights_svc_leave_just_one_label[*-NuSVC]": (
        "one class that is left is the error that it is for `SVC`"
    ),
    "test_svm.py::test_n_iter_libsvm[4-NuSVC-ndarray]": (
        "the reduced hulls of two classes intersect, so that there is no function: `fit` says so"
    ),
    "test_svm.py::test_svm_with_infinite_C[*-SVR-*]": "a regression has a finite C",
    "test_svm.py::test_tweak_params": PRIVATE_REASON,
    "test_svm.py::test_bad_input": "sparse points are predicted by a machine of dense ones, too",
    "test_svm.py::test_svc_nonfinite_params": (
        "such points get a ValueError in other words: it names X, its size and the remedy"
    ),
    "test_svm.py::test_linearsvc_parameters[*l1*]": L1_PENALTY,
    "test_svm.py::test_linearsvc_parameters[False-l2-hinge]": (
        "`dual` has no effect: the hinge loss is solved whatever it says"
    ),
    "test_svm.py::test_linearsvc": L1_PENALTY,
    "test_svm.py::test_linearsvc_crammer_singer": CRAMMER_SINGER,
    "test_svm.py::test_crammer_singer_binary": CRAMMER_SINGER,
    "test_svm.py::test_dense_liblinear_intercept_handling": L1_PENALTY,
    "test_sparse.py::test_sparse_liblinear_intercept_handling": L1_PENALTY,
    "test_svm.py::test_linearsvm_liblinear_sample_weight[LinearSVC-params0]": L1_PENALTY,
    "test_svm.py::test_linear_svm_convergence_warnings": (
        "two iterations solve the problem, so that there is nothing to warn of"
    ),
    "test_svm.py::test_custom_kernel_not_array_input": (
        'a callable kernel takes arrays; of other objects `kernel="precomputed"` takes the matrix'
    ),
    "test_svm.py::test_svc_raises_error_internal_representation": PRIVATE_REASON,
    "test_svm.py::test_probability_raises_futurewarning": DEPRECATION_REASON,
    "test_svm.py::test_svc_nusvc_probA_probB_deprecated": DEPRECATION_REASON,
    "test_sparse.py::test_svc[*-X_train1-*]": TWO_POINTS,
}
"""The reason by the name of a test that fails on every machine."""

SIGNS_OF_ZERO = (
    "compares predictions of dense and CSR points where w = 0 is optimal (a value below 1e-29): their "
    "signs are those of rounding errors"
)

CLOSE_ANSWERS: dict[str, str] = {
    "test_svm.py::test_precomputed": (
        'compares a kernel matrix and `kernel="linear"` to six decimals; both gaps are below `tol`, '
        "and with `tol=1e-9` they agree to 1e-7"
    ),
    "test_svm.py::test_svc_clone_with_callable_kernel": (
        'compares a callable and `kernel="linear"` to six decimals; both gaps are below `tol`, '
        "and with `tol=1e-9` they agree to 1e-7"
    ),
    "test_svm.py::test_libsvm_parameters": (
        "asks for weights of exactly 1/4 where `tol` is 1e-3; they are 0.24999999, with a gap of 2e-7"
    ),
    "test_svm.py::test_svm_classifier_sided_sample_weight[estimator0]": (
        "asks for a value below 1e-12 where `tol` is 1e-3; it is 4e-10"
    ),
    "test_svm.py::test_svc_ovr_tie_breaking[NuSVC]": (
        "counts votes by the sign of a pairwise decision value that is 0 by symmetry, and 3e-12 here; "
        "scikit-learn's source says that rounding errors may decide it"
    ),
    "test_sparse.py::test_sparse_oneclasssvm[*-linear-X_train0-*]": SIGNS_OF_ZERO,
    "test_sparse.py::test_sparse_oneclasssvm[*-linear-X_train2-*]": SIGNS_OF_ZERO,
}
"""The reason by the name of a test that compares answers more closely than their certified gaps."""
