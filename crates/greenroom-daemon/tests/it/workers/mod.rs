//! Programs of plugins through the real keeper, the real stage and the real launcher.

mod hostile;
mod measure;
mod peers;
mod reach;
mod scene;
