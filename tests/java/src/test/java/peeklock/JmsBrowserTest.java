package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.messaging.servicebus.ServiceBusMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** {@code QueueBrowser} of JMS, by {@code azure-servicebus-jms}. */
class JmsBrowserTest {
    private static List<String> browsed(Session session, Queue queue, String selector) throws JMSException {
        List<String> bodies = new ArrayList<>();
        try (QueueBrowser browser = session.createBrowser(queue, selector)) {
            for (Object message : Collections.list(browser.getEnumeration())) {
                bodies.add(Jms.body((Message) message));
            }
        }
        return bodies;
    }

    @Test
    void aBrowserSeesEverythingAndTakesNothing() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String name = bus.queue();
            Queue queue = session.createQueue(name);
            assertEquals(List.of(), browsed(session, queue, null));
            List<String> sent = IntStream.range(0, 700).mapToObj(Integer::toString).toList();
            bus.sender(name).sendMessages(sent.stream().map(Bus::message).toList());
            assertEquals(sent, browsed(session, queue, null));
            assertEquals(sent, browsed(session, queue, null));
            MessageConsumer consumer = session.createConsumer(queue);
            assertEquals(sent, Jms.bodies(consumer, 700));
            Bus.until("messages are left", () -> bus.seen(name).isEmpty());
            assertEquals(List.of(), browsed(session, queue, null));
        }
    }

    @Test
    void aBrowserWithASelectorSeesMatchingMessages() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String name = bus.queue();
            List<ServiceBusMessage> messages = IntStream.range(0, 600).mapToObj(size -> {
                ServiceBusMessage message = Bus.message(Integer.toString(size));
                message.getApplicationProperties().put("size", size);
                return message;
            }).toList();
            bus.sender(name).sendMessages(messages);
            Queue queue = session.createQueue(name);
            assertEquals(List.of("3", "599"), browsed(session, queue, "size = 3 OR size > 598"));
            assertEquals(List.of(), browsed(session, queue, "size = 1000"));
        }
    }

    @Test
    void deadLettersAreBrowsed() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String name = bus.queue();
            bus.sender(name).sendMessage(Bus.message("bad"));
            var receiver = bus.receiver(name);
            receiver.deadLetter(Bus.one(receiver));
            assertEquals(List.of("bad"), browsed(session, session.createQueue(name + "/$deadletterqueue"), null));
            assertEquals(List.of("bad"), bus.seenDead(name));
        }
    }
}
