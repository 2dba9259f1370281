package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.core.util.Configuration;
import com.azure.core.util.ConfigurationBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import org.junit.jupiter.api.Test;

/** Versions before 7.17.6, and later ones with this setting, attach to {@code $management} while they put the token. */
class EarlyManagementLinkTest {
    private static final Configuration AS_BEFORE =
        new ConfigurationBuilder().putProperty("com.azure.core.amqp.cache", "false").build();

    @Test
    void browsingCanBeTheFirstOperationOfAConnection() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            bus.sender(queue).sendMessage(new ServiceBusMessage("a"));
            ServiceBusClientBuilder builder = new ServiceBusClientBuilder()
                .connectionString(Daemon.get().connectionString()).configuration(AS_BEFORE);
            try (ServiceBusReceiverClient receiver = builder.receiver().queueName(queue).buildClient()) {
                assertEquals("a", receiver.peekMessage().getBody().toString());
            }
        }
    }
}
