-- The test account of MySQL and MariaDB: it makes databases and accounts of its own.
CREATE DATABASE queue_test CHARACTER SET utf8mb4;
CREATE USER 'queue'@'%' IDENTIFIED BY 'queue';
GRANT ALL PRIVILEGES ON *.* TO 'queue'@'%' WITH GRANT OPTION;
