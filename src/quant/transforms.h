// Transforms of a model before its weights are quantized: it computes the same, and rounding costs less.
// weights/transformed_weights.h applies those of weights, compiler/passes/rotate_keys.cpp the one that adds ops;
// docs/quantization.md says what each is good for.
#pragma once

namespace tandem {

struct Transforms {
  // The weights of norms move into the layers that read them.
  bool fold_norms = false;
  // An orthogonal rotation of the residual stream ("r1"), and of the values of each head ("r2"). r1 folds norms too,
  // and unties the LM head from the embedding.
  bool rotate_residual = false;
  bool rotate_values = false;
  // An orthogonal rotation of each head's queries and keys behind the rotary embedding ("r3"), while the model runs.
  bool rotate_keys = false;
  // Scales of channels move: from the columns of the layers behind a norm into the norm (which folds norms too), from
  // keys to queries, between values and the output projection, between `up` and `down` of a gated MLP.
  bool equalize_norms = false;
  bool equalize_keys = false;
  bool equalize_values = false;
  bool equalize_mlp = false;

  friend bool operator==(const Transforms&, const Transforms&) = default;
};

}  // namespace tandem
