package peeklock;

import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.azure.servicebus.jms.ServiceBusJmsConnectionFactory;
import com.azure.servicebus.jms.ServiceBusJmsConnectionFactorySettings;
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.TextMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Connections by {@code azure-servicebus-jms}. */
final class Jms {
    static final long PATIENCE_MS = Bus.PATIENCE.toMillis();

    private Jms() {
    }

    static ServiceBusJmsConnectionFactory factory() throws Exception {
        Daemon daemon = Daemon.get();
        String port = daemon.amqp().substring(daemon.amqp().lastIndexOf(':'));
        var settings = new ServiceBusJmsConnectionFactorySettings();
        settings.setShouldReconnect(false);
        return new ServiceBusJmsConnectionFactory("RootManageSharedAccessKey", "SAS_KEY_VALUE", "localhost" + port, settings);
    }

    static Connection connection() throws Exception {
        Connection connection = factory().createConnection();
        connection.start();
        return connection;
    }

    static String body(Message message) throws JMSException {
        assertNotNull(message, "no message came");
        if (message instanceof TextMessage text) {
            return text.getText();
        }
        return new String(((BytesMessage) message).getBody(byte[].class), StandardCharsets.UTF_8);
    }

    /** The bodies of so many messages. */
    static List<String> bodies(MessageConsumer consumer, int count) throws JMSException {
        List<String> bodies = new ArrayList<>();
        while (bodies.size() < count) {
            bodies.add(body(consumer.receive(PATIENCE_MS)));
        }
        return bodies;
    }
}
