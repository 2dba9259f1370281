package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.Connection;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;

/** Consumers of topics: of their own, shared, durable, by {@code azure-servicebus-jms}. */
class JmsTopicConsumerTest {
    private static final String ALL = "all";
    private static final String SESSIONS = "sessions";

    private static Connection client(String clientId) throws Exception {
        Connection connection = Jms.factory().createConnection();
        if (clientId != null) {
            connection.setClientID(clientId);
        }
        connection.start();
        return connection;
    }

    private static String id() {
        return "c" + UUID.randomUUID().toString().substring(0, 8);
    }

    private static void publish(Session session, Topic topic, int... numbers) throws JMSException {
        var producer = session.createProducer(topic);
        for (int n : numbers) {
            Message message = session.createTextMessage("m" + n);
            message.setIntProperty("n", n);
            producer.send(message);
        }
        producer.close();
    }

    /** The subscriptions that clients made: those besides the two that every topic of these tests has. */
    private static List<String> made(String topic) {
        return Subscriptions.of(topic).stream().filter(name -> !name.equals(ALL) && !name.equals(SESSIONS)).toList();
    }

    @Test
    void aConsumerGetsPublishedMessagesAsLongAsItExists() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            String name = bus.topic();
            Topic topic = session.createTopic(name);
            publish(session, topic, 0);
            MessageConsumer one = session.createConsumer(topic);
            MessageConsumer two = session.createConsumer(topic, "n > 1");
            assertEquals(2, made(name).size());
            assertTrue(made(name).stream().allMatch(made -> made.endsWith("$ND")), made(name).toString());
            publish(session, topic, 1, 2);
            assertEquals(List.of("m1", "m2"), Jms.bodies(one, 2));
            assertEquals(List.of("m2"), Jms.bodies(two, 1));
            assertNull(two.receiveNoWait());
            one.close();
            Bus.until("the subscription outlives its consumer", () -> made(name).size() == 1);
            connection.close();
            Bus.until("the subscription outlives its connection", () -> made(name).isEmpty());
        }
    }

    @Test
    void selectorsOfConsumersSeeFieldsAndPropertiesAsThoseOfQueuesDo() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = Jms.connection(); Session session = connection.createSession()) {
            Topic topic = session.createTopic(bus.topic());
            List<MessageConsumer> consumers = new ArrayList<>();
            for (String selector : List.of("JMSPriority = 7 AND JMSType = 'order'", "JMSDeliveryMode = 'PERSISTENT'",
                "color IN ('red') AND size BETWEEN 2 AND 5", "Color = 'red'", "JMSCorrelationID LIKE 'a%'")) {
                consumers.add(session.createConsumer(topic, selector));
            }
            Message message = session.createTextMessage("m");
            message.setJMSType("order");
            message.setJMSCorrelationID("abc");
            message.setStringProperty("color", "red");
            message.setIntProperty("size", 3);
            session.createProducer(topic).send(message, jakarta.jms.DeliveryMode.PERSISTENT, 7, 0);
            for (int at : List.of(0, 1, 2, 4)) {
                assertEquals("m", Jms.body(consumers.get(at).receive(Jms.PATIENCE_MS)));
            }
            assertNull(consumers.get(3).receiveNoWait(), "names differ by case");
            assertThrows(JMSException.class, () -> session.createConsumer(topic, "color LIKE"));
        }
    }

    @Test
    void aDurableSubscriptionCollectsWithoutConsumers() throws Exception {
        try (Bus bus = Bus.plain()) {
            String name = bus.topic();
            String client = id();
            try (Connection connection = client(client); Session session = connection.createSession()) {
                MessageConsumer consumer = session.createDurableConsumer(session.createTopic(name), "sub");
                publish(session, session.createTopic(name), 1);
                assertEquals(List.of("m1"), Jms.bodies(consumer, 1));
                consumer.close();
                publish(session, session.createTopic(name), 2);
            }
            assertEquals(List.of("sub$" + client + "$D"), made(name));
            try (Connection connection = client(client); Session session = connection.createSession()) {
                publish(session, session.createTopic(name), 3);
                MessageConsumer consumer = session.createDurableConsumer(session.createTopic(name), "sub");
                assertEquals(List.of("m2", "m3"), Jms.bodies(consumer, 2));
                assertThrows(JMSException.class, () -> session.unsubscribe("sub"), "it has a consumer");
                consumer.close();
                session.unsubscribe("sub");
                assertEquals(List.of(), made(name));
                assertThrows(InvalidDestinationException.class, () -> session.unsubscribe("sub"));
            }
        }
    }

    @Test
    void anUnsharedDurableSubscriptionHasOneConsumer() throws Exception {
        try (Bus bus = Bus.plain()) {
            String name = bus.topic();
            String id = id();
            try (Connection one = client(id); Connection two = client(id); Connection other = client(id());
                Session first = one.createSession(); Session second = two.createSession(); Session third = other.createSession()) {
                Topic topic = first.createTopic(name);
                MessageConsumer consumer = first.createDurableConsumer(topic, "sub");
                var refused = assertThrows(JMSException.class, () -> second.createDurableConsumer(topic, "sub"));
                assertTrue(refused.getMessage().contains("already a subscriber"), refused.getMessage());
                assertThrows(JMSException.class, () -> second.createSharedDurableConsumer(topic, "sub"));
                // Another client id has a subscription of its own.
                MessageConsumer others = third.createDurableConsumer(topic, "sub");
                publish(first, topic, 1);
                assertEquals(List.of("m1"), Jms.bodies(consumer, 1));
                assertEquals(List.of("m1"), Jms.bodies(others, 1));
                consumer.close();
                MessageConsumer taken = second.createDurableConsumer(topic, "sub");
                publish(first, topic, 2);
                assertEquals(List.of("m2"), Jms.bodies(taken, 1));
            }
        }
    }

    @Test
    void aDurableSubscriptionWithAnotherSelectorOrTopicIsANewOne() throws Exception {
        try (Bus bus = Bus.plain()) {
            String name = bus.topic();
            String elsewhere = bus.topic();
            try (Connection connection = client(id()); Session session = connection.createSession()) {
                Topic topic = session.createTopic(name);
                session.createDurableConsumer(topic, "sub").close();
                publish(session, topic, 1, 2);
                session.createDurableConsumer(topic, "sub", "n > 2", false).close();
                publish(session, topic, 2, 3);
                MessageConsumer same = session.createDurableConsumer(topic, "sub", "n > 2", false);
                assertEquals(List.of("m3"), Jms.bodies(same, 1));
                assertNull(same.receiveNoWait());
                same.close();
                assertEquals(1, made(name).size());
                session.createDurableConsumer(session.createTopic(elsewhere), "sub", "n > 2", false).close();
                assertEquals(List.of(), made(name));
                assertEquals(1, made(elsewhere).size());
            }
        }
    }

    @Test
    void consumersOfASharedSubscriptionShareItsMessagesUntilTheLastIsGone() throws Exception {
        try (Bus bus = Bus.plain()) {
            String name = bus.topic();
            String id = id();
            try (Connection one = client(id); Connection two = client(id);
                Session first = one.createSession(); Session second = two.createSession()) {
                Topic topic = first.createTopic(name);
                MessageConsumer here = first.createSharedConsumer(topic, "work");
                MessageConsumer again = first.createSharedConsumer(topic, "work");
                MessageConsumer there = second.createSharedConsumer(topic, "work");
                assertEquals(List.of("work$" + id + "$ND"), made(name));
                assertThrows(JMSException.class, () -> second.createSharedConsumer(topic, "work", "n = 1"));
                publish(first, topic, 1, 2, 3);
                List<String> all = new ArrayList<>();
                for (MessageConsumer consumer : List.of(here, again, there)) {
                    all.add(Jms.body(consumer.receive(Jms.PATIENCE_MS)));
                }
                assertEquals(List.of("m1", "m2", "m3"), all.stream().sorted().toList());
                one.close();
                publish(second, topic, 4);
                assertEquals(List.of("m4"), Jms.bodies(there, 1));
                there.close();
                Bus.until("the subscription outlives its consumers", () -> made(name).isEmpty());
            }
        }
    }

    @Test
    void aSharedDurableSubscriptionNeedsNoClientId() throws Exception {
        try (Bus bus = Bus.plain()) {
            String name = bus.topic();
            String sub = "s" + UUID.randomUUID().toString().substring(0, 8);
            try (Connection one = client(null); Connection two = client(null);
                Session first = one.createSession(); Session second = two.createSession()) {
                Topic topic = first.createTopic(name);
                MessageConsumer here = first.createSharedDurableConsumer(topic, sub);
                MessageConsumer there = second.createSharedDurableConsumer(topic, sub);
                assertEquals(List.of(sub + "$$D"), made(name));
                publish(first, topic, 1, 2);
                List<String> both = List.of(Jms.body(here.receive(Jms.PATIENCE_MS)), Jms.body(there.receive(Jms.PATIENCE_MS)));
                assertEquals(List.of("m1", "m2"), both.stream().sorted().toList());
            }
            try (Connection connection = client(null); Session session = connection.createSession()) {
                publish(session, session.createTopic(name), 3);
                MessageConsumer consumer = session.createSharedDurableConsumer(session.createTopic(name), sub);
                assertEquals(List.of("m3"), Jms.bodies(consumer, 1));
                consumer.close();
                session.unsubscribe(sub);
                assertEquals(List.of(), made(name));
            }
        }
    }

    @Test
    void aTransactedConsumerOfATopicGetsAMessageAgainAfterARollBack() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = client(id());
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED); Session plain = connection.createSession()) {
            Topic topic = session.createTopic(bus.topic());
            MessageConsumer consumer = session.createDurableConsumer(topic, "sub");
            publish(plain, topic, 1);
            assertEquals(List.of("m1"), Jms.bodies(consumer, 1));
            session.rollback();
            assertEquals(List.of("m1"), Jms.bodies(consumer, 1));
            session.commit();
            assertNull(consumer.receiveNoWait());
        }
    }

    @Test
    void aSubscriptionOfAdministrationIsReadAsATopicToo() throws Exception {
        try (Bus bus = Bus.plain(); Connection connection = client(id()); Session session = connection.createSession()) {
            String name = bus.topic();
            publish(session, session.createTopic(name), 1, 2);
            Topic subscription = session.createTopic(name + "/Subscriptions/all");
            MessageConsumer consumer = session.createConsumer(subscription);
            assertEquals(List.of("m1"), Jms.bodies(consumer, 1));
            consumer.close();
            MessageConsumer durable = session.createDurableConsumer(subscription, "sub");
            assertEquals(List.of("m2"), Jms.bodies(durable, 1));
            Bus.until("messages are left", () -> bus.seen(name + "/Subscriptions/all").isEmpty());
            assertEquals(List.of(), made(name));
        }
    }
}
