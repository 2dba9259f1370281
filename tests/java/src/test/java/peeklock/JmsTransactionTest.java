package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.azure.servicebus.jms.ServiceBusJmsConnectionFactory;
import com.azure.servicebus.jms.ServiceBusJmsConnectionFactorySettings;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Transacted sessions of JMS, by {@code azure-servicebus-jms}: one transaction after the other, without a declaration. */
class JmsTransactionTest {
    private static final long PATIENCE_MS = Bus.PATIENCE.toMillis();

    private static Connection connection() throws Exception {
        Daemon daemon = Daemon.get();
        String port = daemon.amqp().substring(daemon.amqp().lastIndexOf(':'));
        var settings = new ServiceBusJmsConnectionFactorySettings();
        settings.setShouldReconnect(false);
        Connection connection = new ServiceBusJmsConnectionFactory("RootManageSharedAccessKey", "SAS_KEY_VALUE",
            "localhost" + port, settings).createConnection();
        connection.start();
        return connection;
    }

    private static String body(Message message) throws JMSException {
        assertNotNull(message, "no message came");
        if (message instanceof TextMessage text) {
            return text.getText();
        }
        return new String(((BytesMessage) message).getBody(byte[].class), StandardCharsets.UTF_8);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aTransactedSessionReceivesAndSendsAsAWhole(boolean commits) throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = connection()) {
            String queue = bus.queue();
            bus.sender(queue).sendMessages(List.of(Bus.message("a"), Bus.message("b")));
            try (Session session = connection.createSession(Session.SESSION_TRANSACTED)) {
                var destination = session.createQueue(queue);
                MessageConsumer consumer = session.createConsumer(destination);
                assertEquals("a", body(consumer.receive(PATIENCE_MS)));
                assertEquals("b", body(consumer.receive(PATIENCE_MS)));
                session.createProducer(destination).send(session.createTextMessage("c"));
                assertEquals(2, bus.seen(queue).size());
                if (commits) {
                    session.commit();
                    assertEquals("c", body(consumer.receive(PATIENCE_MS)));
                    session.commit();
                    Bus.until("messages are left", () -> bus.seen(queue).isEmpty());
                } else {
                    session.rollback();
                    assertEquals("a", body(consumer.receive(PATIENCE_MS)));
                    assertEquals("b", body(consumer.receive(PATIENCE_MS)));
                    session.commit();
                    Bus.until("messages are left", () -> bus.seen(queue).isEmpty());
                }
            }
        }
    }

    @Test
    void aMessageThatIsRolledBackAgainAndAgainIsDeadLettered() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = connection()) {
            String queue = bus.queue(new CreateQueueOptions().setMaxDeliveryCount(3));
            bus.sender(queue).sendMessage(Bus.message("poison"));
            try (Session session = connection.createSession(Session.SESSION_TRANSACTED)) {
                MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
                for (int delivery = 1; delivery <= 3; delivery++) {
                    Message message = consumer.receive(PATIENCE_MS);
                    assertEquals("poison", body(message));
                    assertEquals(delivery > 1, message.getJMSRedelivered());
                    assertEquals(delivery, message.getIntProperty("JMSXDeliveryCount"));
                    session.rollback();
                }
                Bus.until("the message is not dead-lettered", () -> bus.seenDead(queue).equals(List.of("poison")));
                assertEquals(List.of(), bus.seen(queue));
            }
        }
    }

    @Test
    void aTransactedSessionSendsToAnotherQueueAsAWhole() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = connection()) {
            String source = bus.queue();
            String target = bus.queue();
            bus.sender(source).sendMessages(List.of(Bus.message("a"), Bus.message("b")));
            try (Session session = connection.createSession(Session.SESSION_TRANSACTED)) {
                MessageConsumer consumer = session.createConsumer(session.createQueue(source));
                var producer = session.createProducer(session.createQueue(target));
                String received = "";
                for (boolean commits : List.of(false, true)) {
                    received = body(consumer.receive(PATIENCE_MS));
                    producer.send(session.createTextMessage("for " + received));
                    assertEquals(0, bus.seen(target).size());
                    if (commits) {
                        session.commit();
                    } else {
                        session.rollback();
                    }
                }
                assertEquals(List.of(received.equals("a") ? "b" : "a"), bus.seen(source));
                assertEquals(List.of("for " + received), bus.seen(target));
            }
        }
    }

    @Test
    void aTransactedSessionThatIsClosedRollsBack() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = connection()) {
            String queue = bus.queue();
            bus.sender(queue).sendMessage(Bus.message("a"));
            try (Session session = connection.createSession(Session.SESSION_TRANSACTED)) {
                var destination = session.createQueue(queue);
                assertEquals("a", body(session.createConsumer(destination).receive(PATIENCE_MS)));
                session.createProducer(destination).send(session.createTextMessage("never"));
            }
            try (Session session = connection.createSession(Session.SESSION_TRANSACTED)) {
                assertEquals("a", body(session.createConsumer(session.createQueue(queue)).receive(PATIENCE_MS)));
                session.commit();
            }
            Bus.until("messages are left", () -> bus.seen(queue).isEmpty());
        }
    }
}
