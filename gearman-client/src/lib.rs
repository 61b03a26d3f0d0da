//! A client for Gearman job servers.
