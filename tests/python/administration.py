"""The SDK's administration client against a daemon over plain HTTP."""

from azure.servicebus.management import ServiceBusAdministrationClient

#: The emulator's rule and key.
CONNECTION_STRING = (
    "Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)


def administration_client(daemon) -> ServiceBusAdministrationClient:
    """The client insists on https; as in the samples of the emulator, its base URL is replaced."""
    connection_string = CONNECTION_STRING.format(port=daemon.http_port)
    client = ServiceBusAdministrationClient.from_connection_string(connection_string, retry_total=0)
    client._impl._client._base_url = f"http://localhost:{daemon.http_port}"
    return client
