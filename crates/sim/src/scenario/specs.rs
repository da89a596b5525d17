//! Names of control laws and queue disciplines with their parameters, as a scenario writes them.

macro_rules! spec {
    ($(#[$doc:meta])* $name:ident, $default:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The text as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $name($default.into())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.into())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

spec!(
    /// A control law and its parameters: `"newreno"`, `"ledbat:target=25ms,gain_down=10"`.
    LawSpec,
    "newreno"
);
spec!(
    /// A queue discipline and its parameters: `"droptail"`, `"codel:target=5ms"`.
    QueueSpec,
    "droptail"
);
