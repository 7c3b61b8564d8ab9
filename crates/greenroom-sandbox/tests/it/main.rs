//! Real namespaces, real kernels, real escapes.

mod cage;
mod life;
