package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** Delivery delay of JMS, by {@code azure-servicebus-jms}. */
class JmsDelayTest {
    @Test
    void aDelayedMessageIsScheduled() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String name = bus.queue();
            MessageProducer producer = session.createProducer(session.createQueue(name));
            producer.setDeliveryDelay(Duration.ofHours(1).toMillis());
            Message later = session.createTextMessage("later");
            producer.send(later);
            producer.setDeliveryDelay(0);
            producer.send(session.createTextMessage("now"));
            MessageConsumer consumer = session.createConsumer(session.createQueue(name));
            assertEquals("now", Jms.body(consumer.receive(Jms.PATIENCE_MS)));
            assertNull(consumer.receiveNoWait());
            var browsed = bus.receiver(name).peekMessage();
            assertNotNull(browsed);
            assertEquals("SCHEDULED", browsed.getState().toString().toUpperCase());
        }
    }

    @Test
    void aDelayedMessageComesWhenItsTimeComes() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String name = bus.queue();
            MessageProducer producer = session.createProducer(session.createQueue(name));
            producer.setDeliveryDelay(300);
            producer.send(session.createTextMessage("later"));
            Message received = session.createConsumer(session.createQueue(name)).receive(Jms.PATIENCE_MS);
            assertEquals("later", Jms.body(received));
            assertTrue(received.getJMSDeliveryTime() <= System.currentTimeMillis(), "not before its time");
        }
    }
}
