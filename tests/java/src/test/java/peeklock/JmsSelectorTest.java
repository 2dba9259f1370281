package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Selectors of JMS, by {@code azure-servicebus-jms}. */
class JmsSelectorTest {
    private static ServiceBusMessage colored(String body, String color) {
        ServiceBusMessage message = Bus.message(body);
        message.getApplicationProperties().put("color", color);
        return message;
    }

    private static void send(Session session, Destination to, String body, int priority, int size) throws JMSException {
        MessageProducer producer = session.createProducer(to);
        producer.setPriority(priority);
        producer.setDeliveryMode(size % 2 == 0 ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
        Message message = session.createTextMessage(body);
        message.setIntProperty("size", size);
        message.setJMSType("type" + size);
        message.setJMSCorrelationID("answer-" + size);
        producer.send(message);
        producer.close();
    }

    @Test
    void aConsumerGetsMatchingMessagesInOrderAndTheRestStays() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String queue = bus.queue();
            bus.sender(queue).sendMessages(List.of(colored("a", "red"), colored("b", "blue"), colored("c", "red"),
                colored("d", "Red"), Bus.message("e")));
            Destination from = session.createQueue(queue);
            MessageConsumer red = session.createConsumer(from, "color = 'red'");
            assertEquals(List.of("a", "c"), Jms.bodies(red, 2));
            assertNull(red.receiveNoWait());
            bus.sender(queue).sendMessages(List.of(colored("f", "blue"), colored("g", "red")));
            assertEquals("g", Jms.body(red.receive(Jms.PATIENCE_MS)));
            red.close();
            assertEquals(List.of("b", "d", "e", "f"), Jms.bodies(session.createConsumer(from), 4));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"JMSPriority > 6", "JMSType = 'type2'", "JMSCorrelationID = 'answer-2'", "size BETWEEN 2 AND 3",
        "JMSDeliveryMode = 'PERSISTENT'", "JMSTimestamp > 0 AND size * 2 = 4", "JMSXDeliveryCount = 1 AND size IN ('x') OR size = 2",
        "JMSType LIKE '%\\_2' ESCAPE '\\' OR NOT size <> 2 AND missing IS NULL"})
    void fieldsAndPropertiesAreSelected(String selector) throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            Destination queue = session.createQueue(bus.queue());
            send(session, queue, "one", 4, 1);
            send(session, queue, "two", 8, 2);
            send(session, queue, "five", 4, 5);
            MessageConsumer consumer = session.createConsumer(queue, selector);
            assertEquals("two", Jms.body(consumer.receive(Jms.PATIENCE_MS)));
            assertNull(consumer.receiveNoWait());
        }
    }

    @Test
    void anAnswerIsFoundByTheIdOfItsQuestion() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            Destination queue = session.createQueue(bus.queue());
            MessageProducer producer = session.createProducer(queue);
            Message question = session.createTextMessage("question");
            producer.send(question);
            for (String answer : List.of("ID:other", question.getJMSMessageID())) {
                Message message = session.createTextMessage("answer to " + answer);
                message.setJMSCorrelationID(answer);
                producer.send(message);
            }
            String selector = "JMSCorrelationID = '" + question.getJMSMessageID() + "'";
            Message answer = session.createConsumer(queue, selector).receive(Jms.PATIENCE_MS);
            assertEquals("answer to " + question.getJMSMessageID(), Jms.body(answer));
            String itself = "JMSMessageID = '" + question.getJMSMessageID() + "'";
            assertEquals("question", Jms.body(session.createConsumer(queue, itself).receive(Jms.PATIENCE_MS)));
        }
    }

    @Test
    void aRolledBackMessageComesAgainBeforeLaterOnes() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection();
             Session session = connection.createSession(Session.SESSION_TRANSACTED)) {
            String queue = bus.queue();
            bus.sender(queue).sendMessages(List.of(colored("x", "blue"), colored("a", "red"), colored("b", "red")));
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue), "color = 'red'");
            assertEquals(List.of("a", "b"), Jms.bodies(consumer, 2));
            session.rollback();
            assertEquals(List.of("a", "b"), Jms.bodies(consumer, 2));
            session.commit();
            Bus.until("what does not match stays", () -> bus.seen(queue).equals(List.of("x")));
        }
    }

    @Test
    void subscriptionsAndDeadLettersAreSelectedAlike() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String topic = bus.topic();
            bus.topicSender(topic).sendMessages(List.of(colored("a", "red"), colored("b", "blue"), colored("c", "red")));
            String subscription = topic + "/Subscriptions/all";
            MessageConsumer blue = session.createConsumer(session.createQueue(subscription), "color = 'blue'");
            assertEquals("b", Jms.body(blue.receive(Jms.PATIENCE_MS)));
            blue.close();
            var receiver = bus.receiver(subscription);
            Bus.some(receiver, 2).forEach(message -> receiver.deadLetter(message, new DeadLetterOptions().setDeadLetterReason(
                "because of " + message.getBody())));
            Destination dead = session.createQueue(subscription + "/$deadletterqueue");
            MessageConsumer why = session.createConsumer(dead, "DeadLetterReason = 'because of c'");
            assertEquals("c", Jms.body(why.receive(Jms.PATIENCE_MS)));
            assertNull(why.receiveNoWait());
        }
    }

    @Test
    void aLongBacklogIsLookedThrough() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String queue = bus.queue();
            var sender = bus.sender(queue);
            for (int batch = 0; batch < 10; batch++) {
                var messages = sender.createMessageBatch();
                for (int message = 0; message < 100; message++) {
                    assertTrue(messages.tryAddMessage(colored("backlog", "blue")));
                }
                sender.sendMessages(messages);
            }
            sender.sendMessage(colored("last", "red"));
            MessageConsumer red = session.createConsumer(session.createQueue(queue), "color = 'red'");
            assertEquals("last", Jms.body(red.receive(Jms.PATIENCE_MS)));
            assertNull(red.receiveNoWait());
        }
    }

    /** What the client takes for a selector. */
    @ParameterizedTest
    @ValueSource(strings = {"JMSDestination = 'q'", "JMSRedelivered = TRUE"})
    void whatIsNoSelectorIsRefused(String selector) throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            Destination queue = session.createQueue(bus.queue());
            JMSException refused = assertThrows(JMSException.class, () -> session.createConsumer(queue, selector));
            assertTrue(Bus.told(refused).contains("amqp:invalid-field"), Bus.told(refused));
            assertTrue(Bus.told(refused).contains("The selector is not valid"), Bus.told(refused));
        }
    }
}
