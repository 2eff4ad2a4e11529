//! Synthetic work for a device: products of matrices, as neural networks have them.

use crate::sys::matmul::{MATRIX_LEN, call, source};
use crate::{Buffer, Device, Failure, Kernel, Part, Step, Work};

/// Products of matrices on one device.
pub struct Matmul {
    kernel: Kernel,
    matrices: [Buffer; 3],
}

impl Matmul {
    /// Elements of a matrix.
    pub const ELEMENTS: u32 = (MATRIX_LEN / size_of::<u32>()) as u32;

    /// Compiles the kernel for `device` and allocates the matrices.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: &dyn Device) -> Result<Self, Failure> {
        let kernel = device.compile(&source())?.kernel("matmul")?;
        let matrix = || device.allocate(MATRIX_LEN);
        Ok(Self { kernel, matrices: [matrix()?, matrix()?, matrix()?] })
    }

    /// Work that fills the matrices: every element is its number modulo 7.
    ///
    /// # Errors
    /// The device's.
    pub fn fill(&self, device: &dyn Device) -> Result<Work, Failure> {
        let mut piece = device.host_memory(MATRIX_LEN)?;
        for (number, element) in piece.chunks_exact_mut(size_of::<u32>()).enumerate() {
            element.copy_from_slice(&((number % 7) as u32).to_le_bytes());
        }
        let copy = |to: &Buffer| Step::CopyIn {
            from: Part { piece: 0, range: 0..MATRIX_LEN },
            to: to.whole(),
        };
        Ok(Work::new(vec![piece], self.matrices.iter().map(copy).collect()))
    }

    /// The step that computes so many elements, some of them repeatedly if a matrix has fewer.
    ///
    /// # Errors
    /// None for matrices of [`Matmul::new`].
    pub fn step(&self, elements: u32) -> Result<Step, Failure> {
        let [left, right, product] = &self.matrices;
        let none = || Failure::Refused("a matrix of another size".into());
        call(&self.kernel, [left, right, product], elements).map(Step::Call).ok_or_else(none)
    }

    /// The product.
    pub fn product(&self) -> &Buffer {
        &self.matrices[2]
    }
}
