//! The files of a new home, embedded in the binary.

use super::people::People;

/// Every file of `etc/` as shipped. Once written, the files in the home count, and people edit
/// them.
const SHIPPED: [(&str, &str); 86] = [
    ("par.toml", include_str!("par.toml")),
    ("policies/00-api.cedar", include_str!("../../../policies/00-api.cedar")),
    ("policies/05-models.cedar", include_str!("../../../policies/05-models.cedar")),
    ("policies/10-read.cedar", include_str!("../../../policies/10-read.cedar")),
    ("policies/15-host.cedar", include_str!("../../../policies/15-host.cedar")),
    ("policies/16-record.cedar", include_str!("../../../policies/16-record.cedar")),
    ("policies/16-services.cedar", include_str!("../../../policies/16-services.cedar")),
    (
        "policies/17-journal_query.cedar.disabled",
        include_str!("../../../policies/17-journal_query.cedar.disabled"),
    ),
    (
        "policies/17-journal_search.cedar.disabled",
        include_str!("../../../policies/17-journal_search.cedar.disabled"),
    ),
    (
        "policies/17-journal_size.cedar.disabled",
        include_str!("../../../policies/17-journal_size.cedar.disabled"),
    ),
    ("policies/17-kernel_log.cedar.disabled", include_str!("../../../policies/17-kernel_log.cedar.disabled")),
    ("policies/17-logins.cedar.disabled", include_str!("../../../policies/17-logins.cedar.disabled")),
    ("policies/17-nginx_test.cedar.disabled", include_str!("../../../policies/17-nginx_test.cedar.disabled")),
    ("policies/20-deploy.cedar", include_str!("../../../policies/20-deploy.cedar")),
    ("policies/25-network.cedar", include_str!("../../../policies/25-network.cedar")),
    ("policies/30-service.cedar.disabled", include_str!("../../../policies/30-service.cedar.disabled")),
    ("policies/40-taint.cedar", include_str!("../../../policies/40-taint.cedar")),
    ("policies/90-never.cedar", include_str!("../../../policies/90-never.cedar")),
    ("policies/entities.toml", include_str!("../../../policies/entities.toml")),
    ("policies/tests/00-api.toml", include_str!("../../../policies/tests/00-api.toml")),
    ("policies/tests/05-models.toml", include_str!("../../../policies/tests/05-models.toml")),
    ("policies/tests/10-read.toml", include_str!("../../../policies/tests/10-read.toml")),
    ("policies/tests/15-host.toml", include_str!("../../../policies/tests/15-host.toml")),
    ("policies/tests/16-record.toml", include_str!("../../../policies/tests/16-record.toml")),
    ("policies/tests/16-services.toml", include_str!("../../../policies/tests/16-services.toml")),
    (
        "policies/tests/17-journal_query.toml.disabled",
        include_str!("../../../policies/tests/17-journal_query.toml.disabled"),
    ),
    (
        "policies/tests/17-journal_search.toml.disabled",
        include_str!("../../../policies/tests/17-journal_search.toml.disabled"),
    ),
    (
        "policies/tests/17-journal_size.toml.disabled",
        include_str!("../../../policies/tests/17-journal_size.toml.disabled"),
    ),
    (
        "policies/tests/17-kernel_log.toml.disabled",
        include_str!("../../../policies/tests/17-kernel_log.toml.disabled"),
    ),
    (
        "policies/tests/17-logins.toml.disabled",
        include_str!("../../../policies/tests/17-logins.toml.disabled"),
    ),
    (
        "policies/tests/17-nginx_test.toml.disabled",
        include_str!("../../../policies/tests/17-nginx_test.toml.disabled"),
    ),
    ("policies/tests/20-deploy.toml", include_str!("../../../policies/tests/20-deploy.toml")),
    ("policies/tests/25-network.toml", include_str!("../../../policies/tests/25-network.toml")),
    ("policies/tests/40-taint.toml", include_str!("../../../policies/tests/40-taint.toml")),
    ("policies/tests/90-never.toml", include_str!("../../../policies/tests/90-never.toml")),
    ("jobs.d/deploy.sh", include_str!("../../../jobs.d/deploy.sh")),
    ("runbooks.d/certificate-expiring.md", include_str!("../../../runbooks.d/certificate-expiring.md")),
    ("runbooks.d/disk-full.md", include_str!("../../../runbooks.d/disk-full.md")),
    ("runbooks.d/errors-in-logs.md", include_str!("../../../runbooks.d/errors-in-logs.md")),
    ("runbooks.d/failed-deploy.md", include_str!("../../../runbooks.d/failed-deploy.md")),
    ("runbooks.d/high-load.md", include_str!("../../../runbooks.d/high-load.md")),
    ("runbooks.d/memory-pressure.md", include_str!("../../../runbooks.d/memory-pressure.md")),
    ("runbooks.d/service-down.md", include_str!("../../../runbooks.d/service-down.md")),
    ("runbooks.d/suspicious-logins.md", include_str!("../../../runbooks.d/suspicious-logins.md")),
    ("runbooks.d/too-many-connections.md", include_str!("../../../runbooks.d/too-many-connections.md")),
    ("runbooks.d/updates-pending.md", include_str!("../../../runbooks.d/updates-pending.md")),
    ("tools.d/certificate_file.toml", include_str!("../../../tools.d/certificate_file.toml")),
    ("tools.d/connections.toml", include_str!("../../../tools.d/connections.toml")),
    ("tools.d/cron_list.toml", include_str!("../../../tools.d/cron_list.toml")),
    ("tools.d/deploy.toml", include_str!("../../../tools.d/deploy.toml")),
    ("tools.d/diff_files.toml", include_str!("../../../tools.d/diff_files.toml")),
    ("tools.d/disk_io.toml", include_str!("../../../tools.d/disk_io.toml")),
    ("tools.d/disk_usage.toml", include_str!("../../../tools.d/disk_usage.toml")),
    ("tools.d/dns_lookup.toml", include_str!("../../../tools.d/dns_lookup.toml")),
    ("tools.d/failed_units.toml", include_str!("../../../tools.d/failed_units.toml")),
    ("tools.d/file_info.toml", include_str!("../../../tools.d/file_info.toml")),
    ("tools.d/git_clone.toml.disabled", include_str!("../../../tools.d/git_clone.toml.disabled")),
    ("tools.d/health_check.toml", include_str!("../../../tools.d/health_check.toml")),
    ("tools.d/http_get.toml.disabled", include_str!("../../../tools.d/http_get.toml.disabled")),
    ("tools.d/http_probe.toml", include_str!("../../../tools.d/http_probe.toml")),
    ("tools.d/interfaces.toml", include_str!("../../../tools.d/interfaces.toml")),
    ("tools.d/journal_query.toml.disabled", include_str!("../../../tools.d/journal_query.toml.disabled")),
    ("tools.d/journal_search.toml.disabled", include_str!("../../../tools.d/journal_search.toml.disabled")),
    ("tools.d/journal_size.toml.disabled", include_str!("../../../tools.d/journal_size.toml.disabled")),
    ("tools.d/kernel_log.toml.disabled", include_str!("../../../tools.d/kernel_log.toml.disabled")),
    ("tools.d/largest_paths.toml", include_str!("../../../tools.d/largest_paths.toml")),
    ("tools.d/list_dir.toml", include_str!("../../../tools.d/list_dir.toml")),
    ("tools.d/listening_ports.toml", include_str!("../../../tools.d/listening_ports.toml")),
    ("tools.d/logins.toml.disabled", include_str!("../../../tools.d/logins.toml.disabled")),
    ("tools.d/memory_usage.toml", include_str!("../../../tools.d/memory_usage.toml")),
    ("tools.d/nginx_test.toml.disabled", include_str!("../../../tools.d/nginx_test.toml.disabled")),
    ("tools.d/pending_updates.toml", include_str!("../../../tools.d/pending_updates.toml")),
    ("tools.d/process_info.toml", include_str!("../../../tools.d/process_info.toml")),
    ("tools.d/process_list.toml", include_str!("../../../tools.d/process_list.toml")),
    ("tools.d/read_config.toml", include_str!("../../../tools.d/read_config.toml")),
    ("tools.d/read_file.toml", include_str!("../../../tools.d/read_file.toml")),
    ("tools.d/recall.toml", include_str!("../../../tools.d/recall.toml")),
    ("tools.d/search_files.toml", include_str!("../../../tools.d/search_files.toml")),
    ("tools.d/service_list.toml", include_str!("../../../tools.d/service_list.toml")),
    ("tools.d/service_restart.toml.disabled", include_str!("../../../tools.d/service_restart.toml.disabled")),
    ("tools.d/service_status.toml", include_str!("../../../tools.d/service_status.toml")),
    ("tools.d/tail_file.toml", include_str!("../../../tools.d/tail_file.toml")),
    ("tools.d/tcp_probe.toml", include_str!("../../../tools.d/tcp_probe.toml")),
    ("tools.d/timer_list.toml", include_str!("../../../tools.d/timer_list.toml")),
    ("tools.d/tls_certificate.toml", include_str!("../../../tools.d/tls_certificate.toml")),
    ("tools.d/who_was_denied.toml", include_str!("../../../tools.d/who_was_denied.toml")),
];

/// The files of `etc/` that differ if one person does everything: that person's own confirmation,
/// outside the run, is enough.
const FOR_ONE: [(&str, &str); 3] = [
    ("policies/20-deploy.cedar", include_str!("../../../policies/one/20-deploy.cedar")),
    ("policies/tests/20-deploy.toml", include_str!("../../../policies/one/tests/20-deploy.toml")),
    ("policies/tests/40-taint.toml", include_str!("../../../policies/one/tests/40-taint.toml")),
];

/// Every file of `etc/` for so many people.
pub(super) fn shipped(people: People) -> Vec<(&'static str, &'static str)> {
    let for_one = |name: &str| FOR_ONE.into_iter().find(|(other, _)| *other == name && people == People::One);
    SHIPPED.into_iter().map(|(name, text)| (name, for_one(name).map_or(text, |(_, text)| text))).collect()
}

/// Whether the file `name` of `etc/` is shipped with this text.
pub(in crate::cli) fn is_shipped(name: &str, text: &str) -> bool {
    SHIPPED.into_iter().chain(FOR_ONE).any(|(other, shipped)| (other, shipped) == (name, text))
}

/// The names of the shipped tools, those that are off included.
pub(in crate::cli) fn tool_names() -> impl Iterator<Item = &'static str> {
    let name = |file: &'static str| file.strip_prefix("tools.d/")?.split('.').next();
    SHIPPED.into_iter().filter_map(move |(file, _)| name(file))
}

/// A demo project to deploy: its files in `workspace/`.
pub(super) const DEMO: [(&str, &str); 7] = [
    ("demo/incoming/1.0.0/VERSION", include_str!("../../../demo/incoming/1.0.0/VERSION")),
    ("demo/incoming/1.0.0/app", include_str!("../../../demo/incoming/1.0.0/app")),
    ("demo/incoming/1.0.1/VERSION", include_str!("../../../demo/incoming/1.0.1/VERSION")),
    ("demo/incoming/1.0.1/app", include_str!("../../../demo/incoming/1.0.1/app")),
    ("demo/incoming/1.0.2-broken/BROKEN", include_str!("../../../demo/incoming/1.0.2-broken/BROKEN")),
    ("demo/incoming/1.0.2-broken/VERSION", include_str!("../../../demo/incoming/1.0.2-broken/VERSION")),
    ("demo/incoming/1.0.2-broken/app", include_str!("../../../demo/incoming/1.0.2-broken/app")),
];
