//! The macro of the views: each is defined by a table of its header's fields.

/// Defines a view and, in a module of their own, the places of its fields.
///
/// A row has a field's name, its getter and setter where it has them, and its bytes. A view that
/// names a header length and an error has a header of that length alone: it gets `check_len` and
/// `payload`.
macro_rules! view {
    (
        #[$view_doc:meta]
        $view:ident in $module:ident $(, $header_len:ident or $error:ident)?;
        $(
            #[$doc:meta]
            $name:ident $($get:ident $(/ $set:ident)?: $value:ty)? = $bytes:expr;
        )*
    ) => {
        /// The bytes of each field.
        pub mod $module {
            $(
                #[$doc]
                pub const $name: core::ops::Range<usize> = $bytes;
            )*
        }

        #[$view_doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $view<T: AsRef<[u8]>> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $view<T> {
            /// A view whose getters may panic where the header is cut or lies.
            #[inline]
            pub const fn new_unchecked(buffer: T) -> Self {
                Self { buffer }
            }

            /// A view of bytes that [`check_len`](Self::check_len) accepts.
            #[inline]
            pub fn new_checked(buffer: T) -> Result<Self, $crate::wire::Malformed> {
                let view = Self::new_unchecked(buffer);
                view.check_len()?;
                Ok(view)
            }

            /// The bytes that it views.
            #[inline]
            pub fn into_inner(self) -> T {
                self.buffer
            }

            $(
                /// Checks that the header is there.
                #[inline]
                pub fn check_len(&self) -> Result<(), $crate::wire::Malformed> {
                    let there = self.buffer.as_ref().len() >= $header_len;
                    if there { Ok(()) } else { Err($crate::wire::Malformed::$error) }
                }

                /// The bytes after the header.
                #[inline]
                pub fn payload(&self) -> &[u8] {
                    $crate::wire::be::clamped(self.buffer.as_ref(), $header_len, usize::MAX)
                }
            )?

            $($(
                #[$doc]
                #[inline]
                pub fn $get(&self) -> $value {
                    $crate::wire::be::Value::get(self.buffer.as_ref(), $module::$name)
                }
            )?)*
        }

        /// Setters leave checksums as they are.
        impl<T: AsRef<[u8]> + AsMut<[u8]>> $view<T> {
            $($($(
                #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), ").")]
                #[inline]
                pub fn $set(&mut self, value: $value) {
                    $crate::wire::be::Value::set(value, self.buffer.as_mut(), $module::$name);
                }
            )?)?)*
        }
    };
}
