"""The SDK's administration client against a daemon: unmodified over https, redirected to plain HTTP by the test."""

from azure.servicebus.management import ServiceBusAdministrationClient


def administration_client(daemon, scheme: str = "http", **options) -> ServiceBusAdministrationClient:
    """Over https it uses the connection string of data clients, with the CA or with REQUESTS_CA_BUNDLE.

    It insists on https; for plain HTTP its base URL is replaced, as in the samples of the emulator.
    """
    if scheme == "https":
        return https_client(daemon.connection_string_tls, connection_verify=daemon.ca, **options)
    connection_string = daemon.connection_string.replace(f":{daemon.amqp_port};", f":{daemon.http_port};")
    client = https_client(connection_string, **options)
    client._impl._client._base_url = f"http://localhost:{daemon.http_port}"
    return client


def https_client(connection_string: str, **options) -> ServiceBusAdministrationClient:
    return ServiceBusAdministrationClient.from_connection_string(connection_string, retry_total=0, **options)
