package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.messaging.servicebus.administration.models.QueueProperties;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.Test;

/** Temporary queues of JMS and the anonymous producer, by {@code azure-servicebus-jms} and plain Qpid. */
class JmsTemporaryQueueTest {
    private static boolean exists(String queue) throws Exception {
        return Daemon.get().overHttp().listQueues().stream().map(QueueProperties::getName).anyMatch(queue::equals);
    }

    private static void answerOne(Session session, MessageConsumer requests) throws JMSException {
        Message request = requests.receive(Jms.PATIENCE_MS);
        MessageProducer anonymous = session.createProducer(null);
        Message reply = session.createTextMessage("re: " + Jms.body(request));
        reply.setJMSCorrelationID(request.getJMSMessageID());
        anonymous.send(request.getJMSReplyTo(), reply);
    }

    private static void requestAndReply(Connection client, Connection server) throws Exception {
        try (Bus bus = Bus.plain(); Session asking = client.createSession(); Session answering = server.createSession()) {
            String name = bus.queue();
            TemporaryQueue replies = asking.createTemporaryQueue();
            MessageConsumer consumer = asking.createConsumer(replies);
            Message request = asking.createTextMessage("question");
            request.setJMSReplyTo(replies);
            asking.createProducer(asking.createQueue(name)).send(request);
            answerOne(answering, answering.createConsumer(answering.createQueue(name)));
            Message reply = consumer.receive(Jms.PATIENCE_MS);
            assertEquals("re: question", Jms.body(reply));
            assertEquals(request.getJMSMessageID(), reply.getJMSCorrelationID());
        }
    }

    @Test
    void aRequestIsAnsweredByATemporaryQueue() throws Exception {
        try (Connection client = Jms.connection(); Connection server = Jms.connection()) {
            requestAndReply(client, server);
        }
    }

    @Test
    void aRequestIsAnsweredByATemporaryQueueOfPlainQpid() throws Exception {
        var factory = new JmsConnectionFactory("RootManageSharedAccessKey", "SAS_KEY_VALUE", "amqp://" + Daemon.get().amqp());
        try (Connection client = factory.createConnection(); Connection server = factory.createConnection()) {
            client.start();
            server.start();
            requestAndReply(client, server);
        }
    }

    @Test
    void aTemporaryQueueIsDeletedByItsClientOrWithItsConnection() throws Exception {
        String first;
        String second;
        try (Connection connection = Jms.connection(); Session session = connection.createSession()) {
            TemporaryQueue deleted = session.createTemporaryQueue();
            first = deleted.getQueueName();
            second = session.createTemporaryQueue().getQueueName();
            assertNotEquals(first, second);
            assertTrue(exists(first) && exists(second), first);
            deleted.delete();
            Bus.until("the deleted queue stays", () -> !unchecked(first));
            assertTrue(exists(second), second);
        }
        Bus.until("the queue outlives its connection", () -> !unchecked(second));
    }

    private static boolean unchecked(String queue) {
        try {
            return exists(queue);
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    @Test
    void anotherConnectionSendsToATemporaryQueueAndReceivesNothingFromIt() throws Exception {
        try (Connection owner = Jms.connection(); Connection other = Jms.connection();
            Session owning = owner.createSession(); Session sending = other.createSession()) {
            TemporaryQueue queue = owning.createTemporaryQueue();
            sending.createProducer(sending.createQueue(queue.getQueueName())).send(sending.createTextMessage("a"));
            sending.createProducer(queue).send(sending.createTextMessage("b"));
            // The client refuses by itself; the broker refuses under a name that does not look temporary to the client.
            assertThrows(JMSException.class, () -> sending.createConsumer(queue));
            var refused = assertThrows(JMSException.class, () -> sending.createConsumer(sending.createQueue(queue.getQueueName())));
            assertTrue(refused.getMessage().contains("amqp:not-allowed"), refused.getMessage());
            assertEquals(List.of("a", "b"), Jms.bodies(owning.createConsumer(queue), 2));
        }
    }

    @Test
    void anAnonymousProducerSendsToManyDestinationsAndGetsRefusals() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String one = bus.queue();
            String two = bus.queue();
            MessageProducer anonymous = session.createProducer(null);
            anonymous.send(session.createQueue(one), session.createTextMessage("1"));
            anonymous.send(session.createQueue(two), session.createTextMessage("2"));
            var missing = session.createQueue("missing-" + one);
            assertThrows(JMSException.class, () -> anonymous.send(missing, session.createTextMessage("3")));
            anonymous.send(session.createQueue(one), session.createTextMessage("4"));
            assertEquals(List.of("1", "4"), bus.seen(one));
            assertEquals(List.of("2"), bus.seen(two));
        }
    }

    @Test
    void anAnonymousProducerOfATransactedSessionSendsAsAWhole() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            String name = bus.queue();
            MessageProducer anonymous = session.createProducer(null);
            anonymous.send(session.createQueue(name), session.createTextMessage("undone"));
            session.rollback();
            anonymous.send(session.createQueue(name), session.createTextMessage("done"));
            assertEquals(List.of(), bus.seen(name));
            session.commit();
            assertEquals(List.of("done"), bus.seen(name));
        }
    }

    @Test
    void aTemporaryTopicIsPublishedToAndGoesWithItsConnection() throws Exception {
        String name;
        try (Connection connection = Jms.connection(); Connection other = Jms.connection();
            Session session = connection.createSession(); Session sending = other.createSession()) {
            var topic = session.createTemporaryTopic();
            name = topic.getTopicName();
            MessageConsumer first = session.createConsumer(topic);
            MessageConsumer second = session.createConsumer(topic, "n = 2");
            MessageProducer producer = sending.createProducer(sending.createTopic(name));
            for (int n = 1; n <= 2; n++) {
                Message message = sending.createTextMessage("m" + n);
                message.setIntProperty("n", n);
                producer.send(message);
            }
            assertEquals(List.of("m1", "m2"), Jms.bodies(first, 2));
            assertEquals(List.of("m2"), Jms.bodies(second, 1));
            assertNull(second.receiveNoWait());
        }
        Bus.until("the topic outlives its connection",
            () -> Subscriptions.topics().stream().noneMatch(name::equals));
    }
}
